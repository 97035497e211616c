package plan

import (
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/scenario"
)

// row is a fault as plans have it.
type row struct {
	fault, group string
	// weight is how often it comes, compared with the others; its targets share it.
	weight  int
	classes []scenario.Class
	// least and most bound how long it stays. A most of 0 says that it is over when it is injected; least is then how long its part is left alone.
	least, most time.Duration
	// main is a parameter that is drawn from values before the others: a plan may be asked for some of the values alone. "" for none.
	main   string
	values []string
	// params draws the parameters, or those beside main; nil draws none.
	params func(*planner, scenario.Target) map[string]any
	// about is the part of a node that it acts on, where that is not the node itself.
	about string
	// also are further parts of the node that it acts on.
	also []string
	// needs are further parts that must be well meanwhile.
	needs []scenario.Class
	// asked says that it comes only where its group or its name is asked for.
	asked bool
}

// is says whether a name stands for the row, or for some of it: a group, a fault, or a fault with one value of its main parameter after a colon.
func (r row) is(name string) bool {
	fault, value, alone := strings.Cut(name, ":")
	if alone {
		return r.fault == fault && slices.Contains(r.values, value)
	}
	return r.fault == name || r.group == name
}

// only is the row as far as names stand for it.
func (r row) only(names []string) row {
	whole := slices.ContainsFunc(names, func(n string) bool { return n == r.fault || n == r.group })
	if len(r.values) > 0 && !whole {
		r.values = slices.DeleteFunc(slices.Clone(r.values), func(v string) bool { return !slices.Contains(names, r.fault+":"+v) })
	}
	return r
}

// scale keeps the weights of rows with many targets apart.
const scale = 12

const s = time.Second

// Parts of a node beside the node itself.
const (
	aboutLimit   = "limit"
	aboutBackend = "backend"
)

// clients are the components that reach the API server by a way of their own.
var clients = []scenario.Class{scenario.Kubelet, scenario.Attacher, scenario.Scheduler, scenario.ControllerManager}

// processes are those that a plan stops; etcd and the API server have rows of their own.
var processes = []scenario.Class{
	scenario.Kubelet, scenario.NodeDriver, scenario.DriverController, scenario.Attacher, scenario.Scheduler, scenario.ControllerManager,
}

// older are the components that may be a minor version older than the API server.
var older = []scenario.Class{scenario.Kubelet, scenario.Scheduler, scenario.ControllerManager}

var (
	onNode  = []scenario.Class{scenario.OnNode}
	backend = []scenario.Class{scenario.Backend, scenario.OnNode}
	driver  = []scenario.Class{scenario.NodeDriver}
	control = []scenario.Class{scenario.DriverController}
	csinode = []scenario.Class{scenario.CSINode}
	api     = []scenario.Class{scenario.APIServer, scenario.Etcd}
)

// halves are the directions of a connection that can be lost.
var halves = []string{"answers", "requests"}

// table is every fault of a plan: how often, on what, for how long, with which parameters. Its order is part of what a seed means.
var table = []row{
	{fault: "quota-drop", group: "quota", weight: 8, classes: onNode, about: aboutLimit, least: 12 * s, most: 30 * s,
		params: func(p *planner, t scenario.Target) map[string]any {
			return map[string]any{"to": p.between(0, int(p.nodes[t.Node-1].Limit)-1)}
		}},
	{fault: "quota-raise", group: "quota", weight: 4, classes: onNode, about: aboutLimit, least: 12 * s, most: 30 * s,
		params: func(p *planner, t scenario.Target) map[string]any {
			return map[string]any{"to": int(p.nodes[t.Node-1].Limit) + p.between(1, 4)}
		}},
	{fault: "quota-flap", group: "quota", weight: 3, classes: onNode, about: aboutLimit, least: 15 * s, most: 30 * s,
		params: func(p *planner, t scenario.Target) map[string]any {
			return map[string]any{"to": p.between(0, int(p.nodes[t.Node-1].Limit)-1), "every": p.seconds(3, 12).String()}
		}},
	{fault: "foreign-attachment", group: "quota", weight: 5, classes: onNode, about: aboutLimit, least: 12 * s, most: 30 * s,
		params: func(p *planner, _ scenario.Target) map[string]any { return map[string]any{"count": p.between(1, 3)} }},
	{fault: "quota-outage", group: "quota", weight: 8, classes: backend, about: aboutBackend, least: 8 * s, most: longest,
		main:   "mode",
		values: []string{"refuse", "hang", "error", "forbidden", "throttle", "garbage", "slow", "stale", "huge", "negative", "wrong-zone"},
		params: func(p *planner, _ scenario.Target) map[string]any {
			if p.value == "slow" {
				return map[string]any{"delay": p.seconds(1, 12).String()}
			}
			return nil
		}},

	{fault: "network-cut", group: "network", weight: 8, classes: clients, least: 4 * s, most: 20 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"mode": one(p.source, "refuse", "hang")}
		}},
	{fault: "network-flap", group: "network", weight: 4, classes: clients, least: 8 * s, most: 20 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"every": p.seconds(1, 4).String()}
		}},
	{fault: "network-half", group: "network", weight: 5, classes: clients, least: 4 * s, most: 20 * s, main: "lost", values: halves},
	{fault: "network-half", group: "network", weight: 4, classes: backend, about: aboutBackend, least: 8 * s, most: longest, main: "lost", values: halves},
	{fault: "network-latency", group: "network", weight: 4, classes: clients, least: 8 * s, most: 20 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"by": one(p.source, "100ms", "300ms", "1s", "3s")}
		}},

	{fault: "component-kill", group: "process", weight: 6, classes: processes, least: 4 * s, most: 15 * s},
	{fault: "component-pause", group: "process", weight: 6, classes: processes, least: 4 * s, most: 15 * s},
	{fault: "component-restart", group: "process", weight: 5, classes: processes, least: 5 * s,
		params: func(p *planner, _ scenario.Target) map[string]any { return map[string]any{"kill": p.below(2) == 0} }},

	// Other versions' executables may not be at hand, and one that is built takes minutes.
	{fault: "version-swap", group: "version", weight: 4, classes: older, least: 8 * s, most: 20 * s, asked: true,
		params: func(*planner, scenario.Target) map[string]any { return map[string]any{"minors": -1} }},

	{fault: "driver-restart", group: "driver", weight: 4, classes: driver, least: 5 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"kill": p.below(2) == 0, "register": p.below(2) == 0}
		}},
	{fault: "driver-surge", group: "driver", weight: 4, classes: driver, least: 4 * s, most: 15 * s},
	{fault: "registration-delay", group: "driver", weight: 4, classes: driver, least: 4 * s, most: 20 * s},
	{fault: "socket-unlink", group: "driver", weight: 4, classes: driver, least: 4 * s, most: 15 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"socket": one(p.source, "csi", "registration")}
		}},

	// A group of its own, so that seeds of the group driver mean what they meant.
	{fault: "driver-rollback", group: "release", weight: 4, classes: driver, also: []string{aboutLimit, aboutBackend}, least: 8 * s, most: 15 * s, asked: true,
		params: func(p *planner, t scenario.Target) map[string]any {
			return map[string]any{"to": p.between(1, int(p.nodes[t.Node-1].Limit)-1)}
		}},

	{fault: "csi-slow", group: "csi", weight: 3, classes: driver, least: 12 * s, most: 30 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"method": "NodeGetInfo", "by": p.seconds(2, 15).String()}
		}},
	{fault: "csi-slow", group: "csi", weight: 3, classes: control, least: 12 * s, most: 30 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"method": "ControllerPublishVolume", "by": p.seconds(2, 20).String()}
		}},
	{fault: "csi-error", group: "csi", weight: 3, classes: driver, least: 12 * s, most: 30 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"method": "NodeGetInfo", "code": one(p.source, "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED")}
		}},
	{fault: "csi-error", group: "csi", weight: 3, classes: control, least: 12 * s, most: 30 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"method": "ControllerPublishVolume", "code": one(p.source, "UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED")}
		}},
	{fault: "csi-garbage", group: "csi", weight: 3, classes: driver, least: 12 * s, most: 25 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			// The record has neither an answer's topology nor that its node id was empty: the count that freezes then would be laid at the kubelet's door.
			if p.below(6) == 0 {
				return map[string]any{"nodeID": "other"}
			}
			return map[string]any{"maxVolumes": one[int64](p.source, 0, -1, 1<<31, 50)}
		}},
	{fault: "detach-lag", group: "csi", weight: 4, classes: control, least: 10 * s, most: longest,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"by": p.seconds(5, 60).String()}
		}},
	{fault: "slow-stale-answer", group: "csi", weight: 3, classes: driver, least: 12 * s, most: 30 * s,
		params: func(*planner, scenario.Target) map[string]any { return map[string]any{"hold": "1m0s"} }},

	{fault: "csinode-delete", group: "object", weight: 3, classes: csinode, least: 5 * s, most: 10 * s},
	{fault: "period-flip", group: "object", weight: 4, classes: []scenario.Class{scenario.CSIDriver}, least: 12 * s, most: 30 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			if p.below(3) == 0 {
				return map[string]any{} // unset
			}
			return map[string]any{"seconds": p.between(11, 60)}
		}},
	{fault: "stale-writer", group: "object", weight: 3, classes: csinode, least: 8 * s, most: 20 * s,
		params: func(p *planner, _ scenario.Target) map[string]any {
			return map[string]any{"verb": one(p.source, "update", "patch", "apply"), "resourceVersion": one(p.source, "old", "none", "fresh"), "every": "1s"}
		}},
	{fault: "node-replace", group: "object", weight: 2, classes: onNode, least: 5 * s, most: 20 * s, needs: []scenario.Class{scenario.ControllerManager}},

	// One outage of what the observers themselves look through, short enough for the watches to go on; a kill leaves a gap in the history, in which
	// nothing is proved, so that it has to be asked for.
	{fault: "component-pause", group: "control-plane", weight: 2, classes: api, least: 2 * s, most: 5 * s},
	{fault: "component-kill", group: "control-plane", weight: 2, classes: api, least: 2 * s, most: 5 * s, asked: true},
}
