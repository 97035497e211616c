package metrics

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

var update = flag.Bool("update", false, "write the series instead of comparing with them")

const fixtures = "../../../../fixtures"

// settled is how long the series go on after a history's end: longer than any alert waits.
const settled = 20 * time.Minute

// TestSeries keeps the series that the alert rules are tried on equal to the histories that they come from.
func TestSeries(t *testing.T) {
	all := map[string]iter.Seq2[history.Event, error]{}
	paths, err := filepath.Glob(filepath.Join(fixtures, "runs", "*.jsonl"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("want recorded histories, got %v (error: %v)", paths, err)
	}
	for _, path := range paths {
		r, err := history.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		all[strings.TrimSuffix(filepath.Base(path), ".jsonl")] = r.All()
	}
	dir := filepath.Join(fixtures, "manifests", "alertstest", "series")
	for name, events := range all {
		s, err := Scrape(history.Header{}, events, settled)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("# One value each %s, %d in all. Written by `go test ./e2e/framework/report/metrics -update`.\n%s\n", Step, s.Steps, strings.Join(s.Lines(), "\n"))
		path := filepath.Join(dir, name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s differs from its history (%v): run the test with -update, then `make alerts-test`; got\n%s", path, err, got)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.txt")); err != nil || len(files) != len(all) {
		t.Errorf("want the series of %d histories, got %v (error: %v)", len(all), files, err)
	}
}

// script is a history made by calls of add; times are seconds.
func script(write func(add func(float64, history.Event, any))) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		var all []history.Event
		seq := map[string]uint64{}
		write(func(at float64, e history.Event, body any) {
			seq[e.Source]++
			e.At, e.Seq, e.Body = time.Duration(at*1e9), seq[e.Source], history.Encode(body)
			all = append(all, e)
		})
		slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestLines(t *testing.T) {
	pod := func(uid, node, phase, reason, unschedulable string) (history.Event, history.Pod) {
		return history.Event{Source: "api/pods", Phase: history.Observed, Key: "ns/" + uid},
			history.Pod{Object: history.Object{Type: "MODIFIED", UID: uid}, NodeName: node, PodPhase: phase, Reason: reason, Unschedulable: unschedulable}
	}
	s, err := Scrape(history.Header{}, script(func(add func(float64, history.Event, any)) {
		add(0, history.Event{Source: "api/nodes", Phase: history.Observed, Key: "n1"}, history.Node{Object: history.Object{Type: "ADDED"}})
		e, p := pod("a", "", "Pending", "", "0/1 nodes are available: 1 node(s) exceed max volume count.")
		add(5, e, p)
		add(6, e, p)
		e, p = pod("a", "n1", "Failed", "VolumeAttachmentLimitExceeded", "")
		add(25, e, p)
		add(26, e, p)
		call := history.CSICall{Side: history.ClientSide, Driver: "d", NodeID: "n1", Code: 8}
		for i := range 3 {
			add(15+float64(i), history.Event{Source: "csi/controller/d", Phase: history.Fail, Op: fmt.Sprint(i), Key: "ControllerPublishVolume"}, call)
		}
		call.Side = history.DriverSide
		add(15, history.Event{Source: "csi/controller/d", Phase: history.Fail, Op: "x", Key: "ControllerPublishVolume"}, call)
		add(16, history.Event{Source: "csi/n1", Phase: history.OK, Node: "n1", Key: "NodePublishVolume"}, history.CSICall{Side: history.ClientSide})
		va := history.VolumeAttachment{Object: history.Object{Type: "ADDED"}, Attacher: "d", NodeName: "n1"}
		add(1, history.Event{Source: "api/volumeattachments", Phase: history.Observed, Key: "va"}, va)
		va.Attached = true
		add(12, history.Event{Source: "api/volumeattachments", Phase: history.Observed, Key: "va"}, va)
		va.Type = "DELETED"
		add(33, history.Event{Source: "api/volumeattachments", Phase: history.Observed, Key: "va"}, va)
		add(34, history.Event{Source: "api/nodes", Phase: history.Observed, Key: "n1"}, history.Node{Object: history.Object{Type: "DELETED"}})
	}), 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := `csi_sidecar_operations_seconds_count{driver_name="d",method_name="/csi.v1.Controller/ControllerPublishVolume",grpc_status_code="ResourceExhausted"} _x2 3+0x4
kube_node_info{node="n1"} 1+0x3
kube_volumeattachment_info{volumeattachment="va",attacher="d",node="n1"} _ 1+0x2
kube_volumeattachment_status_attached{volumeattachment="va"} _ 0 1+0x1
kubelet_admission_rejections_total{node="n1",reason="VolumeAttachmentLimitExceeded"} _x3 1+0x3
scheduler_unschedulable_pods{plugin="NodeVolumeLimits",profile="default-scheduler"} _ 1+0x1 0+0x3`
	if got := strings.Join(s.Lines(), "\n"); got != want || s.Steps != 7 {
		t.Errorf("want 7 steps of\n%s\ngot %d of\n%s", want, s.Steps, got)
	}
}

func TestAnUpdateIsAPut(t *testing.T) {
	s, err := Scrape(history.Header{}, script(func(add func(float64, history.Event, any)) {
		add(0, history.Event{Source: "audit", Phase: history.OK, Key: "csinodes/n1"},
			history.Audit{User: "system:node:n1", Verb: "update", Resource: "csinodes", Name: "n1", Status: 200})
	}), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.Lines(), "\n"); !strings.Contains(got, `verb="PUT",code="200"`) || strings.Contains(got, "UPDATE") {
		t.Errorf("want the verb that the API server counts, got\n%s", got)
	}
}

func TestADamagedHistoryHasNoSeries(t *testing.T) {
	_, err := Scrape(history.Header{}, func(yield func(history.Event, error) bool) { yield(history.Event{}, errors.New("torn")) }, 0)
	if err == nil || !strings.Contains(err.Error(), "torn") {
		t.Errorf("want the error, got %v", err)
	}
}
