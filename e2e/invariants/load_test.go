package invariants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// BenchmarkJudgeFile judges a history from a file, as `headroom check` does: all invariants, 100 nodes, the kinds of events in the proportions of a run of
// the conformance specs, with names as long as a cloud's (over 400 B a line). It reports the time and the peak of the heap, also as a multiple of that of
// the first, shorter history: what is kept must not grow with the length. The shorter one is judged ten times, so that both peaks are the highest of as
// many samples.
func BenchmarkJudgeFile(b *testing.B) {
	const longest = 1_000_000
	var base uint64
	for _, n := range []int{longest / 10, longest} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "history.jsonl")
			size := writeLoad(b, path, n, loadNodes)
			if mean := size / int64(n); mean < 400 {
				b.Fatalf("want lines of 400 B on the average, got %d", mean)
			}
			var peak uint64
			before := cpuSeconds()
			for b.Loop() {
				stop := watchHeap(&peak)
				for range longest / n {
					judgeFile(b, path)
				}
				stop()
			}
			runs := float64(b.N * longest / n)
			b.ReportMetric(b.Elapsed().Seconds()/runs, "s/run")
			b.ReportMetric((cpuSeconds()-before)/runs, "cpu-s/run")
			if base == 0 {
				base = peak
			}
			b.ReportMetric(float64(peak)/1e6, "MB-peak-heap")
			b.ReportMetric(float64(peak)/float64(base), "x-of-100k")
			b.ReportMetric(float64(size)/float64(n), "B/line")
		})
	}
}

// judgeFile wants a verdict that is not Violated of every invariant that the load puts to the test.
func judgeFile(tb testing.TB, path string) {
	r, err := history.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	rep := Judge(r.All(), r.Header())
	if rep.Err != nil {
		tb.Fatal(rep.Err)
	}
	for _, res := range rep.Results {
		for _, v := range res.Verdicts {
			if v.Status == Violated {
				tb.Fatalf("%s: %+v", res.Name, v)
			}
		}
	}
}

// cpuSeconds is what this process has had of the CPUs so far: unlike the time, it does not depend on who else runs.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// watchHeap samples how much the heap holds, dead objects included, until stop.
func watchHeap(peak *uint64) (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			metrics.Read(s)
			*peak = max(*peak, s[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-over }
}

// load writes events of a cluster.
type load struct {
	nodes int
	enc   *json.Encoder
	seq   map[string]uint64
	left  int
	at    time.Duration
	rev   int64
	ops   int
}

const loadDriver = "volumes.block-storage.csi.example-provider.headroom.test"

func loadNode(i int) string {
	return fmt.Sprintf("ip-10-20-%03d-%03d.central-2.compute.internal.example-provider.test", i/10, i%10)
}

func (l *load) put(source, node, key string, phase history.Phase, op string, rev int64, body any) {
	if l.left == 0 {
		return
	}
	l.left--
	l.at += 20 * time.Microsecond
	l.seq[source]++
	e := history.Event{At: l.at, Source: source, Seq: l.seq[source], Phase: phase, Op: op, Rev: rev, Scope: "scope-1", Node: node, Key: key, Body: history.Encode(body)}
	if err := l.enc.Encode(e); err != nil {
		panic(err)
	}
}

func (l *load) op() string { l.ops++; return fmt.Sprintf("c5be7a9d26e.%d", l.ops) }

func (l *load) nextRev() int64 { l.rev++; return l.rev }

// loadNodes is how many nodes the benchmark's cluster has.
const loadNodes = 100

// loadPeriod is the driver's period, over which the nodes tick one after the other.
const loadPeriod = 10 * time.Second

// writeLoad writes a merged history of n events of a cluster of that many nodes and returns its size.
func writeLoad(tb testing.TB, path string, n, nodes int) int64 {
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	enc := json.NewEncoder(f)
	h := newScript().header
	h.Versions["csi-attacher"] = "v4.12.0"
	if err := enc.Encode(h); err != nil {
		tb.Fatal(err)
	}
	l := &load{nodes: nodes, enc: enc, seq: map[string]uint64{}, left: n, at: 100 * time.Second, rev: 10}
	ten := int64(loadPeriod / time.Second)
	l.put("api/csidrivers", "", loadDriver, history.Observed, "", l.nextRev(), history.CSIDriver{Object: history.Object{Type: "ADDED"}, PeriodSeconds: &ten})
	revs := make([]int64, nodes)
	for i := range nodes {
		l.at = 100*time.Second + time.Duration(i)*loadPeriod/time.Duration(nodes)
		revs[i] = l.join(i)
	}
	for tick := 0; l.left > 0; tick++ {
		l.at = 110*time.Second + time.Duration(tick)*loadPeriod
		for i := range nodes {
			revs[i] = l.tick(i, tick, revs[i])
		}
	}
	end := history.Event{At: l.at, Source: history.SourceMerge, Seq: 1, Phase: history.Observed, Key: history.KeyEnd, Body: history.Encode(map[string]int{"events": n})}
	if err := enc.Encode(end); err != nil {
		tb.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

func loadEntries(n int64) []history.CSINodeDriver {
	count := int32(n)
	return []history.CSINodeDriver{{Name: loadDriver, NodeID: "i-0123456789abcdef0", Count: &count, TopologyKeys: []string{"topology.block-storage.csi.example-provider.headroom.test/zone"}}}
}

// info is one NodeGetInfo, on both sides.
func (l *load) info(node string, n int64) {
	source, op := "csi/"+node, l.op()
	in := history.CSICall{Side: history.ClientSide, Driver: loadDriver}
	out := history.CSICall{Side: history.ClientSide, Driver: loadDriver, NodeID: "i-0123456789abcdef0", MaxVolumes: &n}
	l.put(source, node, "NodeGetInfo", history.Invoke, op, 0, in)
	in.Side, out.Side = history.DriverSide, history.DriverSide
	l.put(source, node, "NodeGetInfo", history.Invoke, op, 0, in)
	l.put(source, node, "NodeGetInfo", history.OK, op, 0, out)
	out.Side = history.ClientSide
	l.put(source, node, "NodeGetInfo", history.OK, op, 0, out)
}

// write is one write of a CSINode, in the audit log and in the watch.
func (l *load) write(node, verb string, before int64, n int64) int64 {
	op, rev := l.op(), l.nextRev()
	body := history.Audit{User: "system:node:" + node, Verb: verb, Resource: "csinodes", Name: node, Drivers: loadEntries(n)}
	if before > 0 {
		body.RequestVersion = fmt.Sprint(before)
	}
	l.put("audit", node, "csinodes/"+node, history.Invoke, op, 0, body)
	body.Status = 200
	l.put("audit", node, "csinodes/"+node, history.OK, op, rev, body)
	kind := map[string]string{"create": "ADDED"}[verb]
	if kind == "" {
		kind = "MODIFIED"
	}
	owners := []history.Owner{{Kind: "Node", Name: node, UID: "uid-" + node}}
	l.put("api/csinodes", node, node, history.Observed, "", rev, history.CSINode{Object: history.Object{Type: kind}, Drivers: body.Drivers, Owners: owners})
	return rev
}

// join brings a node up and registers its driver.
func (l *load) join(i int) int64 {
	node := loadNode(i)
	l.put("component/"+node, node, "kubelet@"+node, history.Observed, "", 0, history.Component{State: "started", Version: "v1.36.3"})
	l.put("api/nodes", node, node, history.Observed, "", l.nextRev(), history.Node{Object: history.Object{Type: "ADDED", UID: "uid-" + node}, Kubelet: "v1.36.3"})
	l.put("backend", node, "quota", history.Observed, "", 0, history.Backend{Quota: &history.Quota{Limit: 8, Generation: 1}})
	source, yes := "csi/"+node, true
	l.put(source, node, "GetInfo", history.Invoke, l.op(), 0, history.CSICall{Side: history.ClientSide, Driver: loadDriver})
	l.info(node, 8)
	rev := l.write(node, "create", 0, 8)
	l.put(source, node, "NotifyRegistrationStatus", history.Invoke, l.op(), 0, history.CSICall{Side: history.ClientSide, Driver: loadDriver, Registered: &yes})
	return rev
}

// tick is what happens on a node in a period: the kubelet asks, now and then the count changes, one pod comes and its volume is attached, one goes.
func (l *load) tick(i, tick int, rev int64) int64 {
	node, begun := loadNode(i), l.at
	n := int64(8 + tick/4%2)
	quota := &history.Quota{Limit: n, Generation: int64(1 + tick/4), Attached: 1}
	changed := tick%4 == 0 && tick > 0
	if changed {
		l.put("backend", node, "quota", history.Observed, "", 0, history.Backend{Quota: quota})
	}
	l.info(node, n)
	if changed {
		rev = l.write(node, "update", rev, n)
	}
	for range 3 {
		op := l.op()
		l.put("backend", node, "get", history.Invoke, op, 0, history.Backend{Holder: "node/" + node})
		l.put("backend", node, "get", history.OK, op, 0, history.Backend{Holder: "node/" + node, Quota: quota, Status: 200})
	}
	l.pod(node, fmt.Sprintf("%d-%d", i, tick), quota)
	if i%10 == 0 {
		for p := range 4 {
			l.put(fmt.Sprintf("beat/p%d", p+1), "", "", history.Observed, "", 0, history.Beat{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(l.at), MaxGap: history.Duration(110 * time.Millisecond)})
		}
		op := l.op()
		l.put("probe", "", "", history.Invoke, op, 0, history.Probe{})
		l.put("probe", "", "", history.OK, op, 0, history.Probe{Latency: history.Duration(5 * time.Millisecond)})
	}
	l.put("api/nodes", node, node, history.Observed, "", l.nextRev(), history.Node{Object: history.Object{Type: "MODIFIED", UID: "uid-" + node}, Ready: true, Kubelet: "v1.36.3"})
	l.at = begun + loadPeriod/time.Duration(l.nodes)
	return rev
}

// pod is the whole life of one pod with one volume.
func (l *load) pod(node, id string, quota *history.Quota) {
	ns := "team-analytics-production/"
	name, claim, pv, va, handle := ns+"worker-"+id, ns+"data-worker-"+id, "pvc-7f3c2a1e-"+id, "csi-"+strings.Repeat("5d", 32)+"-"+id, "vol-0123456789abcdef0/"+id
	object := func(kind string) history.Object {
		return history.Object{Type: kind, UID: "2f9c1f0e-6a53-4b7e-9d4a-" + id, Created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	pod := func(kind, phase string) {
		l.put("api/pods", node, name, history.Observed, "", l.nextRev(), history.Pod{Object: object(kind), NodeName: node, PodPhase: phase,
			Claims: []string{"data-worker-" + id}, Scheduler: "default-scheduler"})
	}
	l.put("api/persistentvolumes", "", pv, history.Observed, "", l.nextRev(), history.PV{Object: object("ADDED"), Driver: loadDriver, Handle: handle})
	l.put("api/persistentvolumeclaims", "", claim, history.Observed, "", l.nextRev(), history.PVC{Object: object("ADDED"), VolumeName: pv})
	pod("ADDED", "Pending")
	attached := func(kind string, is bool) {
		l.put("api/volumeattachments", node, va, history.Observed, "", l.nextRev(),
			history.VolumeAttachment{Object: object(kind), Attacher: loadDriver, NodeName: node, PVName: pv, Attached: is})
	}
	attached("ADDED", false)
	l.publish(node, "ControllerPublishVolume", "attach", handle, quota)
	attached("MODIFIED", true)
	l.audited(node, va)
	for _, reason := range []string{"Scheduled", "SuccessfulAttachVolume", "Pulled", "Started"} {
		l.put("api/events", node, name+"."+reason, history.Observed, "", l.nextRev(), history.KubeEvent{
			Object: object("ADDED"), Kind: "Pod", Name: name, EventType: "Normal", Reason: reason, Component: "kubelet", Count: 1,
			Message: "AttachVolume.Attach succeeded for volume \"" + pv + "\" of " + name + " on node " + node,
		})
	}
	pod("MODIFIED", "Running")
	pod("DELETED", "Running")
	l.publish(node, "ControllerUnpublishVolume", "detach", handle, quota)
	attached("DELETED", false)
	l.put("api/persistentvolumeclaims", "", claim, history.Observed, "", l.nextRev(), history.PVC{Object: object("DELETED"), VolumeName: pv})
	l.put("api/persistentvolumes", "", pv, history.Observed, "", l.nextRev(), history.PV{Object: object("DELETED"), Driver: loadDriver, Handle: handle})
}

// publish is one call of the attacher's, on both sides, with the backend's decision.
func (l *load) publish(node, method, key, handle string, quota *history.Quota) {
	source, op, decision := "csi/controller/"+loadDriver, l.op(), l.op()
	client := history.CSICall{Side: history.ClientSide, Driver: loadDriver, Volume: handle, NodeID: "i-0123456789abcdef0"}
	driver := client
	driver.Side = history.DriverSide
	l.put(source, node, method, history.Invoke, op, 0, client)
	l.put(source, node, method, history.Invoke, op, 0, driver)
	l.put("backend", node, key, history.Invoke, decision, 0, history.Backend{Volume: handle, Holder: "controller"})
	l.put("backend", node, key, history.OK, decision, 0, history.Backend{Volume: handle, Holder: "controller", Decision: history.Accepted, Quota: quota, Status: 200})
	l.put(source, node, method, history.OK, op, 0, driver)
	l.put(source, node, method, history.OK, op, 0, client)
}

// audited is one write of a VolumeAttachment.
func (l *load) audited(node, va string) {
	op := l.op()
	body := history.Audit{User: "system:serviceaccount:kube-system:csi-attacher-block-storage", Verb: "patch", Resource: "volumeattachments", Subresource: "status", Name: va}
	l.put("audit", node, "volumeattachments/"+va, history.Invoke, op, 0, body)
	body.Status = 200
	l.put("audit", node, "volumeattachments/"+va, history.OK, op, l.nextRev(), body)
}

// TestLoad keeps the benchmark's history meaningful: it holds, and much of it is judged.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	writeLoad(t, path, 20_000, loadNodes)
	judgeFile(t, path)
	r, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	judged := 0
	for _, res := range Judge(r.All(), r.Header()).Results {
		for _, v := range res.Verdicts {
			judged += v.Judged
		}
	}
	if judged < 3000 {
		t.Errorf("want thousands of judgements, got %d", judged)
	}
}
