package killtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// Phases of a run, in their order.
const (
	phaseCreate  = "create"  // the control plane and the node come up
	phaseMount   = "mount"   // the kubelet has asked the driver to publish a volume
	phaseOutage  = "outage"  // the quota backend fails
	phaseRestart = "restart" // a kubelet or a driver is down, volumes being attached
	phaseCollect = "collect" // the histories are closed and the cell is ended
)

var phases = []string{phaseCreate, phaseMount, phaseOutage, phaseRestart, phaseCollect}

// reference is the driver of most runs.
const reference = "steady"

// wrong are the drivers with which outages and restarts are killed in turn: what a broken one leaves open must be put away as well.
var wrong = []string{reference, "unlimited-on-outage", "all-internal"}

// restarts are specs that stop a component, by what they stop.
var restarts = []struct{ spec, component string }{{"^kubelet-restart$", "kubelet@"}, {"^driver-restart$", "driver@"}}

// Victims.
const (
	victimCommand = "command"
	victimSpec    = "spec process"
	victimCell    = "cell"
)

// victims says how they are recognised by argv[0], and what the command must say of their end.
var victims = map[string]struct {
	argv0   func(string) bool
	message *regexp.Regexp // nil for the command itself
}{
	victimCommand: {argv0: func(string) bool { return true }}, // it is known by its number
	victimSpec: {
		argv0:   func(argv0 string) bool { return strings.HasSuffix(argv0, ".headroom.test") },
		message: regexp.MustCompile(`spec process p\d+ \(process \d+\) died`),
	},
	victimCell: {
		argv0:   func(argv0 string) bool { return argv0 == "headroom:cell" },
		message: regexp.MustCompile(`the cell ended by itself \(signal: killed\)|the cluster ended by itself|the cluster ended before the run did|ended from outside`),
	},
}

// instant is a moment of a run that its history shows.
type instant struct {
	name  string
	file  string // below events/, a pattern
	match func(history.Event) bool
}

// became is the moment when a component of the cell or of a node came to a state.
func became(component, state string) instant {
	return instant{name: component + " " + state, file: "component/*.jsonl", match: func(e history.Event) bool {
		var c history.Component
		return strings.HasPrefix(e.Key, component) && e.Decode(&c) == nil && c.State == state
	}}
}

func phaseBegan(key string) instant {
	return instant{name: "phase " + key, file: "phase.jsonl", match: func(e history.Event) bool { return e.Key == key }}
}

// joined is the moment when a spec process is part of the run. Until then there may be none, and it does not matter when one dies.
var joined = instant{name: "spec process joined", file: "spec/p*.jsonl", match: func(e history.Event) bool { return e.Key == history.KeyOpen }}

// creating are the instants of the create phase, from the first component's start to shortly before the node is Ready.
var creating = []instant{
	became("etcd", "started"), became("kube-apiserver", "started"), became("quota", "ready"), became("kube-apiserver", "ready"),
	became("kube-controller-manager", "ready"), joined, became("csi-attacher@", "started"), became("node-agent@", "started"), became("kubelet@", "started"),
}

// firstWithSpecs is the first of creating at which there is a spec process.
var firstWithSpecs = slices.IndexFunc(creating, func(i instant) bool { return i.name == joined.name })

// published is the moment when the kubelet asks the driver to publish a volume.
var published = instant{name: "NodePublishVolume", file: "csi/*.jsonl", match: func(e history.Event) bool {
	return e.Key == "NodePublishVolume" && e.Phase == history.Invoke
}}

// Moments after which a phase is over.
var (
	nodeReady = instant{name: "the node was Ready", file: "api/nodes.jsonl", match: func(e history.Event) bool {
		var n history.Node
		return json.Unmarshal(e.Body, &n) == nil && n.Ready
	}}
	specEnded = instant{name: "the spec had ended", file: "spec/p*.jsonl", match: func(e history.Event) bool {
		return e.Phase == history.OK || e.Phase == history.Fail || e.Phase == history.Unknown
	}}
	outageBegan = instant{name: "outage", file: "backend.jsonl", match: func(e history.Event) bool { return faultOf(e) != "" }}
	outageEnded = instant{name: "the outage was over", file: "backend.jsonl", match: func(e history.Event) bool { return e.Key == "fault" && faultOf(e) == "" }}
	collected   = closed("the run had been collected", "phase.jsonl")
	cellClosed  = closed("the cell had closed its histories", "component/cell.jsonl")
)

// closed is the moment when a history was closed.
func closed(name, file string) instant {
	return instant{name: name, file: file, match: func(e history.Event) bool { return e.Key == history.KeyClose }}
}

// faultOf is the mode of a fault event.
func faultOf(e history.Event) string {
	var b history.Backend
	if e.Key != "fault" || e.Decode(&b) != nil {
		return ""
	}
	return b.Fault
}

// kill is one SIGKILL to plan.
type kill struct {
	phase  string
	victim string
	at     instant
	look   instant       // when the victim is chosen: at, or before it where the phase is too short for that
	delay  time.Duration // after at
	over   instant       // when the phase has ended
	choice int           // among several that fit
	driver string        // under test
	focus  string        // the spec that comes to the phase soonest
	// scenario is the file of one to play in place of a spec; "" for none.
	scenario string
}

// plan makes all kills of a seed. In each phase the victim rotates, over those that there are; where it begins is the seed's choice.
func plan(seed int64) []kill {
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	var out []kill
	first, left := rng.IntN(3), rng.Perm(len(creating))
	for i := range kills {
		for j, phase := range phases {
			k := kill{phase: phase, choice: rng.IntN(1 << 16), driver: reference, focus: "^stale-count-race$"}
			there := []string{victimCommand, victimCell, victimSpec}
			if phase == phaseCollect {
				there = there[:2] // Ginkgo and its processes have ended before it
			}
			k.victim = there[(first+i+j)%len(there)]
			switch phase {
			case phaseCreate:
				n := slices.IndexFunc(left, func(n int) bool { return k.victim != victimSpec || n >= firstWithSpecs })
				k.at, k.over = creating[left[n]], nodeReady
				left = slices.Delete(left, n, n+1) // each instant once
				k.delay = time.Duration(rng.IntN(200)) * time.Millisecond
			case phaseMount:
				k.at, k.over = published, specEnded // at once: a publication takes some 10 ms
			case phaseOutage:
				k.at, k.over, k.delay = outageBegan, outageEnded, time.Duration(rng.IntN(3000))*time.Millisecond
				k.driver, k.focus = wrong[i%len(wrong)], "^quota-outage-refuse$"
			case phaseRestart:
				r := restarts[i%len(restarts)]
				k.at, k.over, k.delay = became(r.component, "stopped"), specEnded, time.Duration(rng.IntN(500))*time.Millisecond
				k.driver, k.focus = wrong[(first+i)%len(wrong)], r.spec
			case phaseCollect:
				k.at, k.over, k.delay = phaseBegan(phaseCollect), collected, time.Duration(rng.IntN(20))*time.Millisecond
				if k.victim == victimCell {
					k.over, k.delay = cellClosed, k.delay/5 // it closes its histories within some 15 ms, and then is to end anyway
				}
			}
			if k.look = k.at; phase == phaseCollect {
				k.look = phaseBegan("quiesce")
			}
			out = append(out, k)
		}
	}
	return out
}

func TestPlanCoversPhasesAndVictims(t *testing.T) {
	seen, drivers := map[string]bool{}, map[string]bool{}
	for seed := int64(1); seed <= 50; seed++ {
		count, byVictim := map[string]int{}, map[string]int{}
		for _, k := range plan(seed) {
			drivers[k.phase+" "+k.driver] = true
			count[k.phase]++
			byVictim[k.victim]++
			seen[k.phase+" "+k.at.name] = true
			if k.victim == victimSpec && (k.phase == phaseCollect || k.phase == phaseCreate && slices.IndexFunc(creating, func(i instant) bool { return i.name == k.at.name }) < firstWithSpecs) {
				t.Errorf("seed %d: a spec process is to be killed at %s %q, where there is none", seed, k.phase, k.at.name)
			}
			if _, err := filepath.Match(k.at.file, "x"); err != nil || k.over.match == nil {
				t.Errorf("seed %d: %s cannot be recognised", seed, k.at.name)
			}
		}
		for _, phase := range phases {
			if count[phase] != kills {
				t.Errorf("seed %d: want %d kills in %s, got %d", seed, kills, phase, count[phase])
			}
		}
		for _, v := range []string{victimCommand, victimCell, victimSpec} {
			if byVictim[v] < kills-1 {
				t.Errorf("seed %d: want at least %d kills of the %s, got %d of %d", seed, kills-1, v, byVictim[v], len(phases)*kills)
			}
		}
	}
	for _, phase := range []string{phaseOutage, phaseRestart} {
		for _, d := range wrong {
			if !drivers[phase+" "+d] {
				t.Errorf("50 seeds: want a kill in %s with driver %s", phase, d)
			}
		}
	}
	if want := len(creating) + len(phases) - 1 + len(restarts) - 1; len(seen) != want {
		t.Errorf("50 seeds: want %d different instants, got %d: %v", want, len(seen), fmt.Sprint(seen))
	}
}
