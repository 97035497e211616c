// Package metrics turns a history into the time series that the Prometheus of a real cluster would have scraped meanwhile, so that alert rules are tried
// on what happened and not on what somebody imagined.
//
// Contract: only metrics that released components export, under their own names and labels: external-attacher, kubelet, kube-apiserver,
// kube-scheduler, kube-state-metrics. A counter's series begins with its first event, as a real one's does. Times are steps of a fixed length.
//
// What it does not do: export what no component exports. None shows the count in a CSINode, and so no series here does.
package metrics

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report/signals"
	"headroom/e2e/invariants/model"
)

// Step is the time between two scrapes.
const Step = 10 * time.Second

// Series maps a series, as Prometheus writes one (`name{label="value"}`), to its values. A series that does not exist at a step has none there.
type Series struct {
	// Steps is how many scrapes there were, the first at the first event.
	Steps  int
	values map[string][]value
}

type value struct {
	step int
	n    float64
	none bool // the series ends here
}

// scraper holds what the components would answer now.
type scraper struct {
	model   *model.Model
	now     map[string]float64
	waiting map[string]bool // pods that the scheduler cannot place for volume limits
	failed  map[string]bool // pods that were rejected
}

// Scrape makes the series of a history, and of hold after it, during which nothing happens any more.
func Scrape(h history.Header, events iter.Seq2[history.Event, error], hold time.Duration) (Series, error) {
	out := Series{values: map[string][]value{}}
	s := scraper{model: model.New(h), now: map[string]float64{}, waiting: map[string]bool{}, failed: map[string]bool{}}
	var next time.Duration
	begun := false
	for e, err := range events {
		if err != nil {
			return Series{}, fmt.Errorf("scrape: %w", err)
		}
		if !begun {
			begun, next = true, e.At
		}
		for ; next < e.At; next += Step {
			out.scrape(s.now)
		}
		s.observe(e)
	}
	for range 1 + int(hold/Step) {
		out.scrape(s.now)
	}
	return out, nil
}

// scrape appends the values of one step, where they differ from those before.
func (s *Series) scrape(now map[string]float64) {
	for name, n := range now {
		all := s.values[name]
		if last := len(all) - 1; last < 0 || all[last].none || all[last].n != n {
			s.values[name] = append(all, value{step: s.Steps, n: n})
		}
	}
	for name, all := range s.values {
		if _, ok := now[name]; !ok && !all[len(all)-1].none {
			s.values[name] = append(all, value{step: s.Steps, none: true})
		}
	}
	s.Steps++
}

// Lines writes each series in the notation of Prometheus's own tests: `name{label="value"} _x3 1 1x20`.
func (s *Series) Lines() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		words := []string{name}
		run := func(n string, steps int) {
			switch {
			case steps == 1:
				words = append(words, n)
			case steps > 1 && n == "_":
				words = append(words, fmt.Sprintf("_x%d", steps))
			case steps > 1:
				words = append(words, fmt.Sprintf("%s+0x%d", n, steps-1)) // the first value, and so many more
			}
		}
		at := 0
		text := "_"
		for _, v := range s.values[name] {
			run(text, v.step-at)
			at, text = v.step, fmt.Sprint(v.n)
			if v.none {
				text = "_"
			}
		}
		if text != "_" {
			run(text, s.Steps-at)
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// series writes a series with its labels, given in pairs.
func series(name string, labels ...string) string {
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// methods are the full names of the CSI methods that a history names.
var methods = map[string]string{
	model.NodeGetInfo: "/csi.v1.Node/NodeGetInfo",
	model.Publish:     "/csi.v1.Controller/ControllerPublishVolume",
	model.Unpublish:   "/csi.v1.Controller/ControllerUnpublishVolume",
}

// verbs are those of apiserver_request_total for those of the audit log: an update is a PUT there.
var verbs = map[string]string{"create": "POST", "update": "PUT", "patch": "PATCH", "apply": "APPLY", "delete": "DELETE", "deletecollection": "DELETECOLLECTION"}

func (s *scraper) observe(e history.Event) {
	step := s.model.Observe(e)
	switch b := step.Body.(type) {
	case *history.CSICall:
		s.call(e, step.Call)
	case *history.Audit:
		if b.Resource == "csinodes" && e.Phase != history.Invoke && b.Status > 0 {
			s.now[series("apiserver_request_total", "group", "storage.k8s.io", "version", "v1", "resource", b.Resource, "subresource", b.Subresource,
				"scope", "resource", "component", "apiserver", "verb", cmp.Or(verbs[b.Verb], strings.ToUpper(b.Verb)), "code", fmt.Sprint(b.Status))]++
		}
	case *history.Node:
		s.exists(series("kube_node_info", "node", e.Key), b.Type != "DELETED", 1)
	case *history.Pod:
		s.pod(e, b)
	case *history.VolumeAttachment:
		s.attachment(e, b)
	}
}

// exists sets or ends a gauge.
func (s *scraper) exists(name string, there bool, n float64) {
	if there {
		s.now[name] = n
	} else {
		delete(s.now, name)
	}
}

// call counts a completed call where its caller counts it: the attacher, or the kubelet, which has a series per node.
func (s *scraper) call(e history.Event, c *model.Call) {
	full := ""
	if c != nil {
		full = methods[c.Method]
	}
	if full == "" || e.Phase == history.Invoke || c.Side != history.ClientSide {
		return
	}
	code := "OK"
	if !c.OK() {
		code = signals.CodeName(c.Code)
	}
	if c.Method == model.NodeGetInfo {
		s.now[series("csi_operations_seconds_count", "node", c.Node, "driver_name", c.Driver, "method_name", full, "grpc_status_code", code, "migrated", "false")]++
		return
	}
	s.now[series("csi_sidecar_operations_seconds_count", "driver_name", c.Driver, "method_name", full, "grpc_status_code", code)]++
}

func (s *scraper) pod(e history.Event, b *history.Pod) {
	id := cmp.Or(b.UID, e.Key)
	delete(s.waiting, id)
	if b.NodeName == "" && b.PodPhase == "Pending" && b.Type != "DELETED" && strings.Contains(b.Unschedulable, "exceed max volume count") {
		s.waiting[id] = true
	}
	s.exists(series("scheduler_unschedulable_pods", "plugin", "NodeVolumeLimits", "profile", cmp.Or(b.Scheduler, "default-scheduler")), true, float64(len(s.waiting)))
	const rejected = "VolumeAttachmentLimitExceeded"
	if b.PodPhase == "Failed" && b.Reason == rejected && !s.failed[id] {
		s.failed[id] = true
		s.now[series("kubelet_admission_rejections_total", "node", b.NodeName, "reason", rejected)]++
	}
}

func (s *scraper) attachment(e history.Event, b *history.VolumeAttachment) {
	info := series("kube_volumeattachment_info", "volumeattachment", e.Key, "attacher", b.Attacher, "node", b.NodeName)
	there := b.Type != "DELETED"
	attached := 0.0
	if b.Attached {
		attached = 1
	}
	s.exists(info, there, 1)
	s.exists(series("kube_volumeattachment_status_attached", "volumeattachment", e.Key), there, attached)
}
