package upgrade

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	plan "headroom/e2e/framework/plan/upgrade"
	"headroom/e2e/framework/report/signals"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/stoprules"
	"headroom/e2e/framework/versions"
)

// testWalk is a walk of two nodes that takes no steps.
func testWalk() *walk {
	s := &run.Session{Header: history.Header{
		Versions: map[string]string{"kube-apiserver": "v1.34.4", "kubelet": "v1.34.4", "csi-attacher": "v4.12.0"},
		Params: history.Params{Slack: history.Duration(2 * time.Second), Driver: history.DriverParams{
			CacheAge: history.Duration(2 * time.Second), Step: 2, StepInterval: history.Duration(10 * time.Second),
		}},
	}}
	w := &walk{Bench: &run.Bench{Session: s, Driver: "d", Nodes: []string{"a", "b"}}, server: "v1.34.4", kubelets: map[string]versions.Version{"a": "v1.34.4", "b": "v1.34.4"}}
	w.To = "v1.36.3"
	return w
}

func TestWhatStepsChange(t *testing.T) {
	w := testWalk()
	for _, c := range []struct {
		step            plan.Step
		component, node string
	}{
		{plan.Step{Do: plan.Swap, Target: "kube-apiserver"}, "kube-apiserver", ""},
		{plan.Step{Do: plan.Swap, Target: "csi-attacher"}, "csi-attacher@d", ""},
		{plan.Step{Do: plan.Swap, Target: "node/2"}, "kubelet@b", "b"},
		{plan.Step{Do: plan.Drain, Target: "node/1"}, "", "a"},
		{plan.Step{Do: plan.Driver, Target: "controller"}, "driver-controller@d", ""},
		{plan.Step{Do: plan.Driver, Target: "node/1"}, "driver@a/d", "a"},
		{plan.Step{Do: plan.Bake}, "", ""},
	} {
		if got := w.step(c.step); got.component != c.component || got.node != c.node {
			t.Errorf("%s: want component %q on node %q, got %q on %q", c.step, c.component, c.node, got.component, got.node)
		}
	}
}

// TestBoundsFollowTheVersions wants a change of quota to arrive only where API server and kubelets have what it takes.
func TestBoundsFollowTheVersions(t *testing.T) {
	const delay = 2*time.Second + 2*Period + 2*time.Second + 5*10*time.Second // cache, periods, slack, four steps and one more
	for name, c := range map[string]struct {
		change func(*walk)
		want   stoprules.Bounds
	}{
		"no period": {func(w *walk) {
			w.period = false
			w.server, w.kubelets = "v1.36.3", map[string]versions.Version{"a": "v1.36.3"}
		}, stoprules.Bounds{}},
		"all new": {func(w *walk) {
			w.server, w.kubelets = "v1.36.3", map[string]versions.Version{"a": "v1.36.3", "b": "v1.36.3"}
		}, stoprules.Bounds{UpdateDelay: delay, Period: Period}},
		"one kubelet is old":    {func(w *walk) { w.server, w.kubelets["a"] = "v1.36.3", "v1.36.3" }, stoprules.Bounds{Period: Period}},
		"the API server is old": {func(w *walk) { w.kubelets = map[string]versions.Version{"a": "v1.36.3", "b": "v1.36.3"} }, stoprules.Bounds{Period: Period}},
		"a driver that rises at once": {func(w *walk) {
			w.server, w.kubelets, w.Header.Params.Driver.Step = "v1.35.4", map[string]versions.Version{"a": "v1.35.4"}, 0
		}, stoprules.Bounds{UpdateDelay: 24 * time.Second, Period: Period}},
	} {
		w := testWalk()
		w.period = true
		c.change(w)
		if got := (&watcher{walk: w}).bounds(); got != c.want {
			t.Errorf("%s: want %+v, got %+v", name, c.want, got)
		}
	}
}

func TestDecisions(t *testing.T) {
	quiet := look{Bounds: stoprules.Bounds{UpdateDelay: time.Minute, Period: Period}}
	open, back, twice := quiet, quiet, quiet
	open.Signals.UpdateDelay = signals.Delay{Open: 1, OldestOpenSeconds: 5}
	back.Signals.CountChanges = signals.Changes{Changes: 1, Unasked: 1, RolledBack: 1}
	twice.Signals.CountChanges = signals.Changes{Changes: 2, Unasked: 2, RolledBack: 2}
	var d decider
	for i, c := range []struct {
		look                     look
		stop, pause, open, trust bool
		rule                     string
	}{
		{quiet, false, false, false, true, ""},
		{open, false, false, true, false, ""},
		{back, false, true, false, false, "values-roll-back"},
		{back, false, false, false, false, ""}, // it was told of
		{twice, true, false, false, false, "count-moves-unasked"},
	} {
		got := d.decide(c.look)
		rule := ""
		if got.broken != nil {
			rule = got.broken.Name
		}
		if got.stop != c.stop || got.pause != c.pause || got.open != c.open || got.trust != c.trust || rule != c.rule {
			t.Errorf("look %d: want %+v, got %+v (rule %q)", i, c, got, rule)
		}
	}
}

// TestRecordedSeries decides over what walks saw in their bakes. A file's name begins with the rule that stopped the walk, after "stops-", with the rule that
// paused growth once in a walk that went on, after "pauses-", or with "goes-on" where nothing was wrong. To record another: copy the bodies of the events "look" of a run's events/upgrade.jsonl, one a line.
func TestRecordedSeries(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]bool{}
	healthy := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		t.Run(name, func(t *testing.T) {
			stopped, paused, looks := decideOver(t, path)
			rule, stops := strings.CutPrefix(name, "stops-")
			rule, pauses := strings.CutPrefix(rule, "pauses-")
			rule, _, _ = strings.Cut(rule, ".")
			switch {
			case pauses && (len(paused) != 1 || paused[0] != rule), !pauses && !stops && len(paused) > 0:
				t.Errorf("want growth paused where the file is named so, once, got %q", paused)
			case stops && stopped != rule:
				t.Errorf("want a stop by %q, got %q after %d looks", rule, stopped, looks)
			case !stops && stopped != "":
				t.Errorf("want it to go on, got a stop by %q after %d looks", stopped, looks)
			case looks < 3:
				t.Errorf("want a series, got %d looks", looks)
			}
			if stops {
				rules[rule] = true
			} else {
				healthy++
			}
		})
	}
	if healthy < 2 || len(rules) < 3 {
		t.Errorf("want series that go on and some that three rules stop, got %d (stopped: %v)", healthy, rules)
	}
}

// decideOver returns the rule that stops a recorded series, "" for none, those that pause growth before, and at which look. A bake begins where the window
// does.
func decideOver(t *testing.T, path string) (stopped string, paused []string, looks int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var d decider
	window := 0.0
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l look
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatalf("%s: look %d: %v", path, looks+1, err)
		}
		looks++
		if l.Signals.HistorySeconds < window {
			d = decider{}
		}
		window = l.Signals.HistorySeconds
		switch got := d.decide(l); {
		case got.stop:
			return got.broken.Name, paused, looks
		case got.pause:
			paused = append(paused, got.broken.Name)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return "", paused, looks
}
