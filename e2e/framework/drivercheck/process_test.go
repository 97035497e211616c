package drivercheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"headroom/drivers"
	"headroom/drivers/personas"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/report"
	"headroom/fixtures/quota"
)

// definition loads a driver, a built-in one or from a file's text.
func definition(t *testing.T, text string) *drivers.Definition {
	t.Helper()
	name := text
	if strings.Contains(text, "\n") {
		name = filepath.Join(t.TempDir(), "mine.yaml")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if name == "" {
		name = "steady"
	}
	d, err := drivers.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSteadyHolds checks the reference driver, started from its definition: every case holds, none is left out.
func TestSteadyHolds(t *testing.T) {
	t.Parallel()
	r, err := Run(bounded(t), Options{Definition: definition(t, "steady")})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("took %s", r.Elapsed)
	for _, c := range r.Checks {
		for _, k := range c.Cases {
			if k.Status != report.Held {
				t.Errorf("%s/%s: want it held, got %+v", c.ID, k.Name, k)
			}
		}
	}
	if r.Conclusion != Success || r.ExitCode() != 0 {
		t.Errorf("want success, got %s, exit code %d", r.Conclusion, r.ExitCode())
	}
}

// caughtBy are the checks that a persona violates, each persona's own mistake and nothing else.
var caughtBy = map[string][]string{
	"all-internal":                 {"arguments-checked", "class-is-honest"}, // every attach fails with INTERNAL, one without a field too
	"chatty":                       {"query-budget"},
	"double-publish":               {"publish-idempotent"},
	"fails-registration-on-outage": {"never-unbounded"},
	"ignores-foreign":              {"answer-within-quota"},
	"jump-recovery":                {"gradual-recovery"},
	"leaks-attachments":            {"unpublish-safe"},
	"negative":                     {"never-unbounded"},
	"never-refreshes":              {"quota-to-answer"},
	"no-attach-check":              {"attach-rechecked"},
	"node-id-drift":                {"node-id-stable"},
	"remaining-not-total":          {"total-not-remaining"},
	"slow-stale-answer":            {"no-stale-overwrite"},
	"stale-cache":                  {"quota-to-answer"},
	"throttle-as-exhausted":        {"class-is-honest"},
	"unlimited-on-outage":          {"never-unbounded"},
	"zero-on-any-error":            {"never-unbounded"},
}

// needCluster are the personas whose mistake no single driver shows, with the reason.
var needCluster = map[string]string{
	"create-fails":       "volumes are Headroom's backend's here: an external-provisioner asks for them",
	"create-hangs":       "volumes are Headroom's backend's here: an external-provisioner asks for them",
	"delete-leaks":       "volumes are Headroom's backend's here: an external-provisioner asks for their end",
	"no-jitter":          "asking at the kubelet's moment is wrong only where all kubelets have the same",
	"old-version-serves": "it takes two releases of the driver on one node",
}

// TestPersonasAreCaught runs every persona that can be caught without a cluster: each violates its own check, which shows that the check can fail, and no
// other.
func TestPersonasAreCaught(t *testing.T) {
	t.Parallel()
	for _, name := range personas.Names() {
		_, here := caughtBy[name]
		if _, there := needCluster[name]; here == there {
			t.Errorf("persona %q: want it in one of the two tables", name)
		}
	}
	limit := make(chan struct{}, 6) // they mostly wait, but not all at once
	for name, want := range caughtBy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit <- struct{}{}
			defer func() { <-limit }()
			r, err := Run(bounded(t), Options{Definition: definition(t, name)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range r.Checks {
				if c.Status == report.Violated {
					got = append(got, c.ID)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("want %q violated, got %q:\n%s", want, got, strings.Join(violated(r), "\n"))
			}
			if r.Conclusion != Failure || r.ExitCode() != 1 {
				t.Errorf("want failure, got %s, exit code %d", r.Conclusion, r.ExitCode())
			}
		})
	}
	for name := range needCluster {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit <- struct{}{}
			defer func() { <-limit }()
			r, err := Run(bounded(t), Options{Definition: definition(t, name)})
			if err != nil {
				t.Fatal(err)
			}
			if got := violated(r); len(got) > 0 {
				t.Errorf("want nothing violated without a cluster, got %q: move it to the other table", got)
			}
		})
	}
}

// run starts a program of this binary, or another, and ends it with the test.
func run(t *testing.T, cmd *exec.Cmd, socket string) {
	t.Helper()
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ctx := bounded(t)
	for look(ctx, socket) != nil {
		if err := pause(ctx, pollEvery/20); err != nil {
			t.Fatalf("wait for %q: %v", cmd.Args, look(t.Context(), socket))
		}
	}
}

// TestRunningDriver checks a driver that others started, beside a backend of its own, both as processes. What is changed is put back.
func TestRunningDriver(t *testing.T) {
	t.Parallel()
	ctx, dir := bounded(t), socketDir(t)
	backend := drivers.Instance{Endpoint: "unix://" + dir + "/n.sock", DriverName: "steady.test", NodeID: "n1", StateDir: dir + "/state", Backend: "unix:" + dir + "/data"}
	run(t, quotaCommand(dir), dir+"/control")
	control := quota.NewControl("unix:"+dir+"/control", nil)
	if err := control.AddNode(ctx, "n1", quota.NodeConfig{Limit: 7, Foreign: 1}); err != nil {
		t.Fatal(err)
	}
	steady := definition(t, "steady")
	node, err := steady.NodeCommand(backend)
	if err != nil {
		t.Fatal(err)
	}
	run(t, node, dir+"/n.sock")
	backend.Endpoint = "unix://" + dir + "/c.sock"
	controller, err := steady.ControllerCommand(backend)
	if err != nil {
		t.Fatal(err)
	}
	run(t, controller, dir+"/c.sock")
	before, err := control.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Definition: steady, Socket: "unix://" + dir + "/n.sock", Controller: "unix://" + dir + "/c.sock", Quota: control}
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		for _, k := range c.Cases {
			restart := slices.Contains([]caseID{caseRestart, caseSameIDRestart, caseOutageRestart}, caseID{c.ID, k.Name})
			if want := map[bool]report.Status{false: report.Held, true: report.Skipped}[restart]; k.Status != want {
				t.Errorf("%s/%s: want it %s, got %+v", c.ID, k.Name, want, k)
			}
		}
	}
	if r.Conclusion != Partial || r.ExitCode() != 4 {
		t.Errorf("want a partial result, as nobody can restart it, got %s, exit code %d", r.Conclusion, r.ExitCode())
	}
	after, err := control.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []quota.State{before, after} {
		n := st.Nodes["n1"]
		n.Queries, n.Quota.Generation = 0, 0
		st.Nodes["n1"] = n
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("want the backend as it was:\n%+v\ngot:\n%+v", before, after)
	}

	// The node's socket alone, with nothing known of the driver: what attaches is not put to the test, and it is said why.
	r, err = Run(ctx, Options{Socket: o.Socket})
	if err != nil || r.Conclusion != Partial {
		t.Fatalf("want a partial result, got %s, %v", r.Conclusion, err)
	}
	for _, c := range append([]caseID{caseFall, caseOutage}, attachCases...) {
		if got := caseOf(t, r, c); got.Status != report.Skipped || got.Detail == "" || got.Declared {
			t.Errorf("%v: want it skipped with a reason, got %+v", c, got)
		}
	}
	// The controller's socket in the node's place.
	_, err = Run(ctx, Options{Socket: o.Controller})
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || !strings.Contains(env.Remedy, "--controller") {
		t.Errorf("want an environment error that names --controller, got %v", err)
	}
	// A backend that does not know the node, and one that is not there.
	other := quota.NewServer(quota.Options{})
	server := httptest.NewServer(other.Control())
	o.Quota = quota.NewControl(server.URL, nil)
	var input *cluster.InputError
	if _, err := Run(ctx, o); !errors.As(err, &input) || !strings.Contains(input.Remedy, "headroom quota set n1") {
		t.Errorf("want an input error with a remedy, got %v", err)
	}
	server.Close()
	o.Quota = quota.NewControl("unix:"+dir+"/nobody", nil)
	if _, err := Run(ctx, o); !errors.As(err, &env) || !strings.Contains(err.Error(), "headroom quota serve") {
		t.Errorf("want an environment error with a remedy, got %v", err)
	}
	// A node without room.
	if err := control.SetLimit(ctx, "n1", 3); err != nil {
		t.Fatal(err)
	}
	o.Quota = control
	if _, err := Run(ctx, o); !errors.As(err, &input) || !strings.Contains(err.Error(), "want room for 4") {
		t.Errorf("want an input error about the room, got %v", err)
	}
}

// quotaCommand is the quota backend as a process of its own.
func quotaCommand(dir string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "--data", "unix:"+dir+"/data", "--control", "unix:"+dir+"/control", "--events", dir+"/events", "--run", "check")
	cmd.Args[0] = "headroom:" + quota.Program
	return cmd
}

// script is a definition of a driver that is a shell script, which has so long to get ready.
func script(text, limit string) string {
	return `apiVersion: headroom/v1alpha1
kind: Driver
name: mine
figures: {minInterval: 1s, cacheAge: 2s, lastGoodLife: 30s}
node:
  command: [/bin/sh, -c, ` + strconv.Quote(text) + `, "${ENDPOINT}"]
  startLimit: ` + limit + "\n"
}

// TestNoStart are drivers that do not come up: theirs is the failure, unless there is nothing to start.
func TestNoStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		want  []string
		input bool
	}{
		"ends":         {script("echo out of luck; exit 9", "1m"), []string{"ended by itself (exit status 9)", "out of luck"}, false},
		"never serves": {script("sleep 7003", "2s"), []string{"not ready within 2s"}, false}, // what it wrote may come later
		"not there":    {strings.Replace(script("x", "1m"), "/bin/sh", "/nowhere/driver", 1), []string{"/nowhere/driver", "headroom driver lint"}, true},
		"not in PATH":  {strings.Replace(script("x", "1m"), "/bin/sh", "no-such-program-anywhere", 1), []string{"no-such-program-anywhere", "headroom driver lint"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Run(bounded(t), Options{Definition: definition(t, c.text)})
			var driver *cluster.DriverError
			var input *cluster.InputError
			if errors.As(err, &driver) == c.input || errors.As(err, &input) != c.input {
				t.Fatalf("want the driver's failure: %t, got %v", !c.input, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q, got %v", want, err)
				}
			}
		})
	}
}

// poor is a definition of a driver that goes wrong.
func poor(t *testing.T, how string) *drivers.Definition {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return definition(t, fmt.Sprintf(`apiVersion: headroom/v1alpha1
kind: Driver
name: mine
limit: fixed
figures: {minInterval: 1s, cacheAge: 1s, lastGoodLife: 1h}
node:
  command: [%q, "${ENDPOINT}", "${DRIVER_NAME}", "${NODE_ID}"]
  env: {%s: %q}
`, self, poorVariable, how))
}

// TestNoCSIDriver starts what serves no CSI: nobody chose its socket, so the failure is the driver's.
func TestNoCSIDriver(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"mute", "hangs up", "speaks HTTP"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			_, err := Run(bounded(t), Options{Definition: poor(t, how)})
			var driver *cluster.DriverError
			var env *cluster.EnvironmentError
			if !errors.As(err, &driver) || errors.As(err, &env) || !strings.Contains(err.Error(), "it is no CSI driver: ") || !strings.Contains(err.Error(), "serves CSI on ${ENDPOINT}") {
				t.Errorf("want the driver's failure and what to look at, got %v", err)
			}
		})
	}
}

// TestInterruptedWhileConnecting: who is told to end has nothing to say of the driver.
func TestInterruptedWhileConnecting(t *testing.T) {
	t.Parallel()
	endpoint := serveFake(t, &fake{})
	s := &session{Options: Options{Definition: definition(t, "steady"), Scale: 1}, own: &own{processes: []*process{{name: "node"}}}}
	ctx, cancel := context.WithCancel(bounded(t))
	cancel()
	_, err := s.connect(ctx, strings.TrimPrefix(endpoint, "unix://"))
	if err == nil || errors.As(err, new(*cluster.DriverError)) {
		t.Errorf("want an error that is not the driver's, got %v", err)
	}
}

// TestDeathIsTold: a driver that dies in a call is told with how it ended and the end of its log, and blamed for that alone.
func TestDeathIsTold(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GetPluginInfo", "ControllerGetCapabilities", "NodeGetInfo", "ControllerPublishVolume"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r, err := Run(bounded(t), Options{Definition: poor(t, method), Volumes: known})
			if err != nil {
				t.Fatal(err)
			}
			got := caseOf(t, r, caseAnswers)
			for _, want := range []string{method + ": the driver is gone after ", "its node process ended (exit status 7)", "dying in " + method} {
				if !strings.Contains(got.Detail, want) {
					t.Errorf("want %q, got %+v", want, got)
				}
			}
			if all := violated(r); !slices.Equal(all, []string{"answers/every call"}) {
				t.Errorf("want its death violated and no more, got %q", all)
			}
		})
	}
}

// TestNoNodeID: an empty id is the driver's mistake, and nothing that a quota backend does not know.
func TestNoNodeID(t *testing.T) {
	t.Parallel()
	f := &fake{wrong: wrong{node: func(_ int64, _ int, right *csi.NodeGetInfoResponse) error { right.NodeId = ""; return nil }}}
	r, err := Run(bounded(t), Options{Socket: serveFake(t, f), Volumes: known, Quota: quota.NewControl("unix:/nobody", nil)})
	if err != nil {
		t.Fatal(err)
	}
	if got := violated(r); !slices.Equal(got, []string{"limit-sane/node id"}) {
		t.Errorf("want the node id violated and no more, got %q", got)
	}
}

// TestOtherName starts a driver that does not take the name and the node id that it is given.
func TestOtherName(t *testing.T) {
	t.Parallel()
	text := `apiVersion: headroom/v1alpha1
kind: Driver
name: mine
limit: %s
figures: {minInterval: 1s, cacheAge: 1s, lastGoodLife: 1h}
node:
  command: [headroom-hostpathlike, "--endpoint=${ENDPOINT}", "--drivername=x.${DRIVER_NAME}", "--nodeid=x${NODE_ID}", "--statedir=${STATE_DIR}", "--enable-attach",
    "--attach-limit=3"]
`
	r, err := Run(bounded(t), Options{Definition: definition(t, fmt.Sprintf(text, "backend"))})
	if err != nil {
		t.Fatal(err)
	}
	if got := violated(r); !slices.Equal(got, []string{"identity/name", "limit-sane/node id"}) {
		t.Errorf("want name and node id violated, got %q", got)
	}
	if got := caseOf(t, r, caseFirst); got.Status != report.Inconclusive || !strings.Contains(got.Detail, "knows no such node") {
		t.Errorf("want what was not reached open, with the reason, got %+v", got)
	}
}

// TestHostpath checks csi-driver-host-path, or its stand-in, as it is and as it over-promises.
func TestHostpath(t *testing.T) {
	t.Parallel()
	d := definition(t, "hostpath")
	r, err := Run(bounded(t), Options{Definition: d})
	if err != nil {
		t.Fatal(err)
	}
	if got := violated(r); len(got) > 0 || r.Conclusion != Success {
		t.Errorf("--attach-limit=3: want success, got %s, %q", r.Conclusion, got)
	}
	if got := caseOf(t, r, caseOutage); got.Status != report.Skipped || !got.Declared {
		t.Errorf("want outages not to apply to a fixed limit, got %+v", got)
	}
	r, err = Run(bounded(t), Options{Definition: definition(t, "hostpath-random")})
	if err != nil {
		t.Fatal(err)
	}
	if got := caseOf(t, r, caseOver); got.Status != report.Violated || !strings.Contains(got.Detail, "may be attached, got OK") {
		t.Errorf("--attach-limit=-1: want it to over-promise, got %+v", got)
	}
	if r.Conclusion != Failure {
		t.Errorf("--attach-limit=-1: want failure, got %s", r.Conclusion)
	}
}

// TestAttachesNothing: a driver without attaching is no success, and the report says what to try.
func TestAttachesNothing(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../drivers/hostpath.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(bounded(t), Options{Definition: definition(t, strings.Replace(string(b), "    - --enable-attach\n", "", 1))})
	if err != nil {
		t.Fatal(err)
	}
	if r.Conclusion != Partial || r.ExitCode() != report.ExitInconclusive {
		t.Errorf("want partial, got %s, exit code %d", r.Conclusion, r.ExitCode())
	}
	if got := caseOf(t, r, caseFirst); got.Status != report.Skipped || got.Declared || !strings.Contains(got.Detail, "flag that turns attaching on") {
		t.Errorf("want attaching open, with what to try, got %+v", got)
	}
}

// TestHostpathGate checks a driver without a limit: what takes one is left out, and the result is no success.
func TestHostpathGate(t *testing.T) {
	t.Parallel()
	r, err := Run(bounded(t), Options{Definition: definition(t, "hostpath-gate")})
	if err != nil {
		t.Fatal(err)
	}
	if got := violated(r); len(got) > 0 || r.Conclusion != Partial {
		t.Errorf("want partial, got %s, %q", r.Conclusion, got)
	}
	for _, c := range append([]caseID{caseCount}, limitCases...) {
		if got := caseOf(t, r, c); got.Status != report.Skipped || got.Declared {
			t.Errorf("%v: want it open for lack of a limit, got %+v", c, got)
		}
	}
	for _, c := range []caseID{caseTwice, caseTotal, caseUnpublish, caseNoVolume} {
		if got := caseOf(t, r, c); got.Status != report.Held {
			t.Errorf("%v: want it held, got %+v", c, got)
		}
	}
}

// TestCauses checks a driver whose limit comes from a service of its own, which its definition says how to change.
func TestCauses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stubborn bool
		want     []string
	}{
		"follows":  {false, nil},
		"stubborn": {true, []string{"quota-to-answer/limit falls"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{limit: 6}
			if c.stubborn {
				f.wrong.node = func(_ int64, _ int, r *csi.NodeGetInfoResponse) error { r.MaxVolumesPerNode = 6; return nil }
			}
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f.mu.Lock()
				defer f.mu.Unlock()
				n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
				switch {
				case r.URL.Path == "/limit" && err == nil:
					f.limit = n
				case r.URL.Path == "/foreign" && err == nil:
					f.foreign = n
				case r.URL.Path == "/down" && err == nil:
					f.down = n == 1
				default:
					http.Error(w, r.URL.String(), http.StatusNotFound)
				}
			}))
			t.Cleanup(service.Close)
			call := func(path string) string { return `{http: {url: "` + service.URL + path + `"}}` }
			d := definition(t, `apiVersion: headroom/v1alpha1
kind: Driver
name: mine
limit: own
figures: {minInterval: 100ms, cacheAge: 200ms, lastGoodLife: 30s}
node: {command: [/bin/true, "${ENDPOINT}"]}
volumes: {handles: [v1, v2, v3, v4, v5, v6, v7]}
causes:
  limit: `+call("/limit?n=${LIMIT}")+`
  foreign: `+call("/foreign?n=${FOREIGN}")+`
  outage: {begin: `+call("/down?n=1")+`, end: `+call("/down?n=0")+`}
`)
			r, err := Run(bounded(t), Options{Definition: d, Socket: serveFake(t, f)})
			if err != nil {
				t.Fatal(err)
			}
			if got := violated(r); !slices.Equal(got, c.want) {
				t.Errorf("want %q violated, got %q", c.want, got)
			}
			if !c.stubborn {
				for _, id := range []caseID{caseFall, caseForeign, caseRise, caseOutage, caseOutageCode, caseTotal, caseUnseen} {
					if got := caseOf(t, r, id); got.Status != report.Held {
						t.Errorf("%v: want it held, got %+v", id, got)
					}
				}
			}
			for _, id := range []caseID{caseThrottled, caseRestart, caseNegative} {
				if got := caseOf(t, r, id); got.Status != report.Skipped || got.Detail == "" {
					t.Errorf("%v: want it skipped with a reason, got %+v", id, got)
				}
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.limit != 6 || f.foreign != 0 || f.down || len(f.attached) > 0 {
				t.Errorf("want the service as it was, got limit %d, foreign %d, down %t, %d attached", f.limit, f.foreign, f.down, len(f.attached))
			}
		})
	}
}

// TestCauseFails shows that a cause that cannot be brought about is the environment's failure, and no verdict on the driver.
func TestCauseFails(t *testing.T) {
	t.Parallel()
	d := definition(t, `apiVersion: headroom/v1alpha1
kind: Driver
name: mine
limit: own
figures: {minInterval: 100ms, cacheAge: 200ms, lastGoodLife: 30s}
node: {command: [/bin/true, "${ENDPOINT}"]}
volumes: {handles: [v1, v2, v3, v4, v5, v6, v7]}
causes:
  limit: {command: [/bin/sh, -c, "echo cannot be set to ${LIMIT}; exit 3"]}
`)
	r, err := Run(bounded(t), Options{Definition: d, Socket: serveFake(t, &fake{limit: 6})})
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || !strings.Contains(err.Error(), "causes.limit") || !strings.Contains(err.Error(), "cannot be set to 4") {
		t.Errorf("want an environment error with what the command wrote, got %v", err)
	}
	if got := violated(r); len(got) > 0 || r.Conclusion != Partial {
		t.Errorf("want no violation, got %q, %s", got, r.Conclusion)
	}
}

// TestNothingIsLeft shows that a check that is interrupted ends what it started.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(bounded(t))
	d := definition(t, script("echo $$ > "+dir+"/pid; exec sleep 7004", "1m"))
	go func() {
		for {
			if b, err := os.ReadFile(dir + "/pid"); err == nil && len(b) > 0 {
				cancel()
				return
			}
			if pause(ctx, pollEvery/20) != nil {
				return
			}
		}
	}()
	if _, err := Run(ctx, Options{Definition: d}); !errors.Is(err, context.Canceled) {
		t.Errorf("want an interrupted run, got %v", err)
	}
	b, err := os.ReadFile(dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("want the driver's processes gone, got %v", err)
	}
}
