package coverage

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// script yields events.
func script(events ...history.Event) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func fault(op, name, state, target string, nodes ...string) history.Event {
	return history.Event{Source: history.SourceFault, Phase: history.Observed, Op: op, Key: name, Body: history.Encode(history.Fault{State: state, Target: target, Nodes: nodes})}
}

func quota(node string, limit, attached int64) history.Event {
	return history.Event{Source: history.SourceBackend, Phase: history.Observed, Key: "quota", Node: node,
		Body: history.Encode(history.Backend{Quota: &history.Quota{Limit: limit, Attached: attached}})}
}

func podOn(name, node, phase, why string) history.Event {
	return history.Event{Source: history.PrefixAPI + "pods", Phase: history.Observed, Key: name,
		Body: history.Encode(history.Pod{NodeName: node, PodPhase: phase, Claims: []string{"c"}, Unschedulable: why})}
}

func calls(source, node, method, op string, phase history.Phase) history.Event {
	return history.Event{Source: history.PrefixCSI + source, Phase: phase, Key: method, Op: op, Node: node,
		Body: history.Encode(history.CSICall{Side: history.ClientSide, NodeID: "n1"})}
}

// begin and end are a fault on n1.
var begin, end = fault("1", "f", "inject", "node/1", "n1"), fault("1", "f", "healed", "node/1", "n1")

func TestStatesAreMet(t *testing.T) {
	for want, events := range map[string][]history.Event{
		"":         {begin, end},
		"attached": {quota("n1", 4, 1), begin, end},
		// What is attached elsewhere, before or afterwards is not met.
		" ":                      {quota("n2", 4, 4), quota("n1", 4, 1), quota("n1", 4, 0), begin, end, quota("n1", 4, 1)},
		"attached full":          {begin, quota("n1", 2, 2), end},
		"attached full over":     {begin, quota("n1", 1, 2), end},
		"starting":               {podOn("p", "n1", "Pending", ""), begin, end},
		"  ":                     {podOn("p", "n1", "Pending", ""), podOn("p", "n1", "Running", ""), begin, podOn("q", "n2", "Pending", ""), end},
		"pending":                {begin, podOn("p", "", "Pending", "node(s) exceed max volume count"), end},
		"   ":                    {begin, podOn("p", "", "Pending", "didn't match"), end},
		"asking":                 {begin, calls("n1", "n1", "NodeGetInfo", "c", history.Invoke), end},
		"registering":            {calls("n1", "n1", "GetInfo", "c", history.Invoke), begin, end},
		"    ":                   {calls("n1", "n1", "GetInfo", "c", history.Invoke), calls("n1", "n1", "GetInfo", "c", history.OK), begin, end},
		"attaching":              {begin, calls("controller/d", "", "ControllerPublishVolume", "c", history.Invoke), end},
		"detaching":              {begin, calls("controller/d", "", "ControllerUnpublishVolume", "c", history.Invoke), end},
		"beside":                 {fault("0", "g", "inject", "backend"), begin, end},
		"beside ":                {begin, fault("0", "g", "inject", "backend"), end},
		"attached asking beside": {fault("0", "g", "inject", "backend"), quota("n1", 4, 1), begin, calls("n1", "n1", "NodeGetInfo", "c", history.Invoke), end},
	} {
		c, err := Fold("r", script(events...))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Rows) != 1 || c.Rows[0].Times != 1 || c.Rows[0].Fault != "f" || c.Rows[0].Target != scenario.OnNode {
			t.Errorf("%q: want one injection of f, got %+v", want, c.Rows)
			continue
		}
		var got []string
		for _, s := range States {
			if c.Rows[0].Met[s] > 0 {
				got = append(got, string(s))
			}
		}
		if strings.Join(got, " ") != strings.TrimSpace(want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

func TestOnlyWhatWasInjectedAndHealedCounts(t *testing.T) {
	c, err := Fold("r", script(begin, fault("1", "f", "failed", "node/1", "n1"), fault("2", "f", "inject", "kubelet@2", "n2"), quota("n2", 1, 1),
		fault("2", "f", "healed", "kubelet@2", "n2"), fault("3", "f", "inject", "etcd")))
	if err != nil || len(c.Rows) != 1 || c.Rows[0].Target != scenario.Kubelet || c.Rows[0].Met[Full] != 1 {
		t.Errorf("want the second injection alone, got %+v (%v)", c.Rows, err)
	}
	if _, err := Fold("r", func(yield func(history.Event, error) bool) { yield(history.Event{}, errors.New("torn")) }); err == nil {
		t.Error("a history that cannot be read: want its error, got none")
	}
	if _, err := Fold("r", script(history.Event{Source: history.SourceFault, Key: "f", Body: []byte("{")})); err == nil {
		t.Error("an event that is none: want an error, got none")
	}
}

func TestAddAndTable(t *testing.T) {
	one, err := Fold("r1", script(quota("n1", 4, 1), begin, end))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Fold("r2", script(begin, end))
	if err != nil {
		t.Fatal(err)
	}
	var all Coverage
	for _, c := range []Coverage{two, one} {
		if twice := all.Add(c); twice != nil {
			t.Errorf("want nothing twice, got %v", twice)
		}
	}
	if twice := all.Add(one); len(twice) != 1 || twice[0] != "r1" || all.Times("f", scenario.OnNode) != 2 {
		t.Errorf("a run that is in already: want it named and left out, got %v, %+v", twice, all)
	}
	if all.Times("f", scenario.Etcd) != 0 {
		t.Error("what was never met: want 0")
	}
	got := all.Table([]Row{{Fault: "f", Target: scenario.OnNode}, {Fault: "a", Target: scenario.Etcd}})
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := "FAULT TARGET TIMES ATTACHED FULL OVER STARTING PENDING ASKING REGISTERING ATTACHING DETACHING BESIDE|a etcd 0 - - - - - - - - - -|" +
		"f node 2 1 - - - - - - - - -||2 runs; 1 of 2 faults and targets never met"
	if strings.Join(lines, "|") != want {
		t.Errorf("want\n%s\ngot\n%s", want, strings.Join(lines, "|"))
	}
	if len(all.Rows) != 1 {
		t.Error("drawing the table changed the coverage")
	}
}

func TestFileReadsBack(t *testing.T) {
	one, err := Fold("r1", script(quota("n1", 4, 1), begin, end))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Coverage{one, {}} {
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read("c.yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := again.Encode(); err != nil || string(second) != string(text) {
			t.Errorf("want\n%s\ngot\n%s (%v)", text, second, err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	const good = "apiVersion: headroom/v1alpha1\nkind: Coverage\nruns: [r1]\nrows:\n- {fault: f, target: node, times: 2, met: {full: 1}}\n"
	if _, err := Read("c.yaml", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"kind: Coverage", "kind: Report", `c.yaml:2: kind: want "Coverage", got "Report"`},
		{"[r1]", "[r1, r1]", "c.yaml:3: runs: a run is in it twice"},
		{"target: node", "target: moon", `c.yaml:5: rows[0].target: unknown target "moon"`},
		{"times: 2", "times: -2", "c.yaml:5: rows[0].times: -2 times"},
		{"full: 1", "fuller: 1", `c.yaml:5: rows[0].met.fuller: unknown state "fuller"`},
		{"full: 1", "full: 3", "c.yaml:5: rows[0].met.full: met 3 times in 2 injections"},
		{"full: 1", "full: one", "rows[0].met.full: want a whole number"},
		{"times: 2", "time: 2", `unknown field "time"`},
		{"rows:\n", "rows:\n- {fault: f, target: node, times: 1}\n", "c.yaml:6: rows[1]: fault \"f\" on node is in it twice"},
		{good, "", "the file is empty"},
	} {
		if _, err := Read("c.yaml", []byte(strings.Replace(good, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: want %q, got %v", c.to, c.want, err)
		}
	}
}
