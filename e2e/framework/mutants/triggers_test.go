package mutants

import (
	"slices"
	"testing"
	"time"

	"headroom/drivers/personas"
	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/scenario"
)

// fault is one of a plan, and when it is there.
type fault struct {
	*scenario.Fault
	from, to time.Duration
	params   params
}

// params are those that matter here, of any fault.
type params struct {
	Mode, Lost, Socket string
	To, Count          int64
	MaxVolumes         *int64 `yaml:"maxVolumes"`
	Register           bool
}

// content is what a plan does.
type content struct {
	*scenario.Scenario
	faults []*fault
	// base is how many volumes the pods use that run from the beginning, by node.
	base map[int]int64
	// made are sets of pods made among the faults.
	made []pods
}

type pods struct {
	at    time.Duration
	node  int // 0: any
	count int64
}

func read(t *testing.T, o plan.Options) content {
	t.Helper()
	s, err := plan.New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := content{Scenario: s, base: map[int]int64{}}
	for _, step := range s.Steps {
		at := time.Duration(0)
		if step.At != nil {
			at = time.Duration(*step.At)
		}
		switch {
		case step.Pods != nil && step.At == nil:
			c.base[step.Pods.On.Node] += int64(step.Pods.Count)
		case step.Pods != nil:
			p := pods{at: at, count: int64(max(1, step.Pods.Count))}
			if step.Pods.On != nil {
				p.node = step.Pods.On.Node
			}
			c.made = append(c.made, p)
		case step.Fault != nil:
			f := &fault{Fault: step.Fault, from: at}
			if !f.Params.IsZero() {
				if err := f.Params.Decode(&f.params); err != nil {
					t.Fatal(err)
				}
			}
			c.faults = append(c.faults, f)
		case step.Heal != "":
			for _, f := range c.faults {
				if f.Key() == step.Heal {
					f.to = at
				}
			}
		}
	}
	return c
}

// has says whether a fault of one of the names is there for a time that passes a test.
func (c content) has(names []string, is func(*fault) bool) bool {
	return slices.ContainsFunc(c.faults, func(f *fault) bool { return slices.Contains(names, f.Name) && is(f) })
}

// met says whether pods are made for the nodes of a fault while it is there, early enough to be attached meanwhile.
func (c content) met(f *fault) bool {
	return slices.ContainsFunc(c.made, func(p pods) bool {
		return p.at >= f.from-time.Second && p.at <= f.to-3*time.Second && (p.node == 0 || f.Target.Node == 0 || p.node == f.Target.Node)
	})
}

const (
	// tick is a period and what an answer takes: what lasts so long is seen by one.
	tick = 13 * time.Second
	// ticks are two of them.
	ticks = 23 * time.Second
)

// fails says whether the backend fails to answer, rather than answering nonsense, long enough for the driver to be asked.
func fails(f *fault) bool {
	return slices.Contains([]string{"refuse", "hang", "error", "forbidden", "throttle", "garbage"}, f.params.Mode)
}

// filled says whether pods are made on a node that has no room for them, though its count says so: its limit falls just then, or the count is a lie.
func filled(c content) bool {
	lied := c.has([]string{"csi-garbage"}, func(f *fault) bool {
		n := f.params.MaxVolumes
		return n != nil && *n != 0 && slices.ContainsFunc(c.made, func(p pods) bool {
			return p.node == f.Target.Node && p.at >= f.from+tick && p.at <= f.to && c.base[p.node]+p.count > c.Topology.Nodes[p.node-1].Limit
		})
	})
	return lied || c.has([]string{"quota-drop", "foreign-attachment"}, func(f *fault) bool {
		limit := f.params.To
		if f.Name == "foreign-attachment" {
			limit = c.Topology.Nodes[f.Target.Node-1].Limit - f.params.Count
		}
		return limit <= c.base[f.Target.Node] && slices.ContainsFunc(c.made, func(p pods) bool {
			return p.node == f.Target.Node && p.at <= f.from+5*time.Second && p.at >= f.from-time.Second
		})
	})
}

// registered says when a fault makes the kubelet register the driver anew.
func registered(f *fault) (at time.Duration, ok bool) {
	switch f.Name {
	case "driver-restart":
		return f.from, f.params.Register
	case "socket-unlink":
		return f.to, f.params.Socket == "registration"
	}
	return f.to, f.Name == "driver-surge" || f.Name == "registration-delay"
}

// changed says whether the limit of a node changes for long enough to be answered.
func changed(names ...string) func(content) bool {
	return func(c content) bool { return c.has(names, func(f *fault) bool { return f.to-f.from >= tick }) }
}

// lasts says whether a fall of a limit is answered twice.
func lasts(c content) bool {
	return c.has([]string{"quota-drop", "foreign-attachment"}, func(f *fault) bool { return f.to-f.from >= ticks })
}

func outage(is func(*fault) bool) func(content) bool {
	return func(c content) bool {
		return c.has([]string{"quota-outage"}, func(f *fault) bool { return is(f) && f.to-f.from >= tick })
	}
}

func always(content) bool { return true }

// triggers say whether a plan has what each persona's mistake takes to show, as far as a plan tells: what comes of it is for clusters to say.
var triggers = map[string]func(content) bool{
	"all-internal":    filled,
	"no-attach-check": filled,
	// These show without any fault.
	"chatty":              always,
	"leaks-attachments":   always, // pods come and go in every plan
	"node-id-drift":       always,
	"remaining-not-total": always,

	"ignores-foreign":   changed("foreign-attachment"),
	"never-refreshes":   changed("quota-drop", "quota-raise"),
	"stale-cache":       changed("quota-drop", "foreign-attachment"),
	"slow-stale-answer": lasts,

	"old-version-serves": func(c content) bool { return c.has([]string{"driver-rollback"}, func(*fault) bool { return true }) },

	"negative":            outage(func(f *fault) bool { return f.params.Mode == "negative" }),
	"unlimited-on-outage": outage(fails),
	"zero-on-any-error":   outage(fails),

	"jump-recovery": func(c content) bool {
		// Two steps of 2 may lie between two ticks.
		return c.has([]string{"quota-drop"}, func(f *fault) bool {
			return f.to-f.from >= tick && c.Topology.Nodes[f.Target.Node-1].Limit-max(1, f.params.To) > 4
		}) || outage(func(f *fault) bool { return f.params.Mode == "huge" })(c)
	},
	"fails-registration-on-outage": func(c content) bool {
		return c.has([]string{"quota-outage"}, func(o *fault) bool {
			return fails(o) && slices.ContainsFunc(c.faults, func(f *fault) bool {
				at, ok := registered(f)
				return ok && at > o.from && at < o.to-time.Second && (o.Target.Node == 0 || o.Target.Node == f.Target.Node)
			})
		})
	},
	"throttle-as-exhausted": func(c content) bool { return c.has([]string{"quota-outage"}, c.met) },
	"double-publish": func(c content) bool {
		return c.has([]string{"network-half"}, func(f *fault) bool {
			return (f.Target.Class == scenario.Backend || f.Target.Class == scenario.OnNode) && c.met(f)
		})
	},
	"no-jitter": func(c content) bool {
		calm := c.Steps[len(c.Steps)-1].Sleep
		return len(c.Topology.Nodes) >= 16 && time.Duration(*calm) > 21*time.Duration(*c.Period) && len(c.faults) > 0
	},
}

// TestPlansHaveTheTriggers holds what personas are played with, as data, to what their mistakes take.
func TestPlansHaveTheTriggers(t *testing.T) {
	lines, err := Lines(personas.Names(), Options{Seed: 1, Seeds: 10, Duration: plan.Shortest})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		trigger := triggers[l.Name()]
		switch {
		case l.Persona.Chaos.Never != "" && trigger == nil:
			continue
		case trigger == nil:
			t.Errorf("persona %s: say what a plan has to have for its mistake to show, or why none can", l.Name())
			continue
		}
		var seeds []int64
		for _, p := range l.Plans {
			if trigger(read(t, p.Options)) {
				seeds = append(seeds, p.Seed)
			}
		}
		t.Logf("%s: %v", l.Name(), seeds)
		if len(seeds) == 0 {
			t.Errorf("persona %s: none of the plans has what its mistake takes to show", l.Name())
		}
	}
	// Without what it declares, a persona's mistake has no chance in most plans.
	bare := read(t, plan.Options{Seed: 1, Duration: plan.Shortest, Faults: []string{"network"}})
	for _, name := range []string{"negative", "no-jitter", "throttle-as-exhausted", "jump-recovery", "no-attach-check", "fails-registration-on-outage"} {
		if triggers[name](bare) {
			t.Errorf("%s: want no trigger in a plan of network faults", name)
		}
	}
}
