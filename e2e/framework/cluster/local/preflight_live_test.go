package local

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/preflight"
	"headroom/e2e/framework/versions"
)

var preflightVersions = flag.String("preflight", "", "versions of TestPreflightLive's cells, such as 1.34,1.36/1.34: those of kube-apiserver, and after a slash of the kubelet (default the newest supported)")

// plant is a driver with one defect, as objects of a live cluster.
type plant struct {
	name   string
	period int64 // 0 sets none
	// counts are those in the CSINodes of node and elsewhere; -1 is an entry without one.
	counts [2]int32
	// writer of the entries.
	writer string
	// attached volumes on node; codes are those of failed attaches, -1 for an error without one.
	attached int
	codes    []int32
	// attachers are the images of its attachers' containers, with arguments after a space.
	attachers []string
	// noObject leaves the CSIDriver out, applied says that kubectl applied it.
	noObject, applied bool
	// want are findings where the API server keeps the period and the code, and gateless where it keeps neither.
	want, gateless []string
}

const (
	image    = "registry.example/sig-storage/csi-attacher:"
	gateFlag = " --feature-gates=" + versions.MutableCSINodeAllocatableCount + "="
)

var plants = []plant{
	{name: "healthy", period: 60, gateless: []string{"warning period-unset"}},
	{name: "unset", want: []string{"warning period-unset"}, gateless: []string{"warning period-unset"}},
	{name: "overflows", period: 9223372037, want: []string{"no-go period-overflows"}, gateless: []string{"warning period-unset"}},
	{name: "dropped", period: 60, applied: true, gateless: []string{"warning field-dropped"}},
	{name: "no-count", period: 60, counts: [2]int32{4, -1}, want: []string{"no-go no-count"}, gateless: []string{"no-go no-count", "warning period-unset"}},
	{name: "no-counts", period: 60, counts: [2]int32{-1, -1}, want: []string{"warning no-counts"}, gateless: []string{"warning no-counts", "warning period-unset"}},
	{name: "below-use", period: 60, counts: [2]int32{1, 4}, attached: 2, want: []string{"no-go count-below-use"}, gateless: []string{"no-go count-below-use", "warning period-unset"}},
	{name: "written", period: 60, writer: "limit-fixer", want: []string{"no-go direct-writer"}, gateless: []string{"no-go direct-writer", "warning period-unset"}},
	{name: "old-attacher", period: 60, attachers: []string{image + "v4.11.0"}, want: []string{"no-go no-error-code"}, gateless: []string{"warning period-unset"}},
	{name: "old-attacher-gate", period: 60, attachers: []string{image + "v4.11.0" + gateFlag + "true"}, gateless: []string{"warning period-unset"}},
	{name: "attacher-gate-off", period: 60, attachers: []string{image + "v4.12.0" + gateFlag + "false"}, want: []string{"no-go no-error-code"}, gateless: []string{"warning period-unset"}},
	{name: "attachers-differ", period: 60, attachers: []string{image + "v4.12.0", image + "v4.13.0"}, want: []string{"warning several-attachers"}, gateless: []string{"warning period-unset"}},
	{name: "unseen", period: 60, attachers: []string{}, want: []string{"unknown attacher-unseen"}, gateless: []string{"warning period-unset"}},
	{name: "codes", period: 60, attachers: []string{}, codes: []int32{8}, gateless: []string{"warning period-unset"}},
	{name: "no-codes", period: 60, attachers: []string{}, codes: []int32{-1}, want: []string{"no-go no-error-code"}, gateless: []string{"warning period-unset"}},
	{name: "no-object", noObject: true, want: []string{"warning no-object"}, gateless: []string{"warning no-object"}},
}

// Where planted drivers have entries: on a node with a kubelet, and in the CSINode of a node that is no more.
const plantNode, plantElsewhere = "bare", "elsewhere"

func (p plant) driver() string { return p.name + ".planted.headroom.test" }

// entry is the driver's in the CSINode of the i-th of the nodes.
func (p plant) entry(i int) storagev1.CSINodeDriver {
	e := storagev1.CSINodeDriver{Name: p.driver(), NodeID: "id"}
	count := p.counts[i]
	if count == 0 {
		count = 4
	}
	if count > 0 {
		e.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
	}
	return e
}

// objects makes what the driver has besides entries in CSINodes.
func (p plant) objects(ctx context.Context, c kubernetes.Interface) error {
	meta := metav1.ObjectMeta{Name: p.driver()}
	driver := &storagev1.CSIDriver{ObjectMeta: meta}
	if p.period > 0 {
		driver.Spec.NodeAllocatableUpdatePeriodSeconds = &p.period
	}
	if p.applied {
		driver.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: fmt.Sprintf(`{"spec":{"nodeAllocatableUpdatePeriodSeconds":%d}}`, p.period)}
	}
	if !p.noObject {
		if _, err := c.StorageV1().CSIDrivers().Create(ctx, driver, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range p.attached {
		if err := p.attachment(ctx, c, fmt.Sprintf("%s-%d", p.driver(), i), storagev1.VolumeAttachmentStatus{Attached: true}); err != nil {
			return err
		}
	}
	for i, code := range p.codes {
		failed := &storagev1.VolumeError{Message: "full"}
		if code >= 0 {
			failed.ErrorCode = &code
		}
		if err := p.attachment(ctx, c, fmt.Sprintf("%s-failed-%d", p.driver(), i), storagev1.VolumeAttachmentStatus{AttachError: failed}); err != nil {
			return err
		}
	}
	return p.pod(ctx, c)
}

func (p plant) attachment(ctx context.Context, c kubernetes.Interface, name string, status storagev1.VolumeAttachmentStatus) error {
	volume := "pv-" + name
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: p.driver(), NodeName: plantNode, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
	made, err := c.StorageV1().VolumeAttachments().Create(ctx, va, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = status
	_, err = c.StorageV1().VolumeAttachments().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// pod makes the pod of the driver's attachers, which nobody schedules, and the lease that it holds.
func (p plant) pod(ctx context.Context, c kubernetes.Interface) error {
	all := p.attachers
	if all == nil {
		all = []string{image + "v4.12.0"}
	}
	holder := "controller-" + p.name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: holder}, Spec: corev1.PodSpec{SchedulerName: "nobody"}}
	for i, a := range all {
		words := strings.Fields(a)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("attacher-", i), Image: words[0], Args: words[1:]})
	}
	if len(all) == 0 {
		pod.Spec.Containers = []corev1.Container{{Name: "something", Image: "registry.example/else:v1"}}
	}
	if err := eventually(ctx, func(ctx context.Context) error { // the namespace's service account comes a moment after it
		_, err := c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "external-attacher-leader-" + strings.ReplaceAll(p.driver(), ".", "-")}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
	_, err := c.CoordinationV1().Leases("default").Create(ctx, lease, metav1.CreateOptions{})
	return err
}

// plantEntries writes the entries of all planted drivers, those of each writer at once.
func plantEntries(ctx context.Context, c kubernetes.Interface) error {
	nodes := c.StorageV1().CSINodes()
	if _, err := nodes.Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: plantElsewhere}}, metav1.CreateOptions{FieldManager: "kubelet"}); err != nil {
		return err
	}
	for i, name := range []string{plantNode, plantElsewhere} {
		for _, writer := range []string{"", "limit-fixer"} {
			n, err := nodes.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, p := range plants {
				if p.writer == writer {
					n.Spec.Drivers = append(n.Spec.Drivers, p.entry(i))
				}
			}
			if writer == "" {
				writer = "kubelet"
			}
			if _, err := nodes.Update(ctx, n, metav1.UpdateOptions{FieldManager: writer}); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestPreflightLive plants every defect that the API server lets be planted in live clusters, each in a driver of its own, and wants each found, and found
// where it is only. The same cells take every manifest as a dry run. A period below 10 s, and one that was stored while the gate was on, cannot be planted: they have unit tests.
func TestPreflightLive(t *testing.T) {
	if *preflightVersions == "" {
		*preflightVersions = versions.Default().Version.String()
	}
	for pair := range strings.SplitSeq(*preflightVersions, ",") {
		t.Run(strings.ReplaceAll(pair, "/", "-kubelet-"), func(t *testing.T) {
			server, kubelet, several := strings.Cut(pair, "/")
			if !several {
				kubelet = server
			}
			cell := newTestCluster(t, filepath.Join(t.TempDir(), "run"), binariesAt(t, server, kubelet), steady, plantNode)
			seePlants(t, cell)
			seeForbidden(t, cell)
			t.Run("manifests", func(t *testing.T) { seeManifests(t, cell) })
		})
	}
}

// binariesAt is testBinaries for a cell of a release whose kubelets are of another one.
func binariesAt(t *testing.T, server, kubelet string) components {
	c := testBinaries(t)
	find := func(text string) versions.Release {
		r, err := versions.Embedded().Find(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	of, nodes := find(server), find(kubelet)
	for _, r := range []versions.Release{of, nodes} {
		all, err := binaries.List(t.Context(), binaries.Options{Kubernetes: r.Version})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			if b.State != binaries.Cached {
				t.Fatalf("%s %s is %s %s: run `headroom binaries fetch --kubernetes %s` first", b.Component.Name, b.Component.Version, b.State, b.Detail, r.Version)
			}
			if r.Version == of.Version || b.Component.Name == "kubelet" {
				c.Binaries[b.Component.Name] = map[versions.Version]string{b.Component.Version: b.Path}
				c.Versions[b.Component.Name] = b.Component.Version
			}
		}
	}
	return c
}

func seePlants(t *testing.T, cell *testCluster) {
	for _, p := range plants {
		if err := p.objects(t.Context(), cell.client); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	if err := plantEntries(t.Context(), cell.client); err != nil {
		t.Fatal(err)
	}
	_, result := lookAt(t, cell.client, preflight.Options{})
	table, ran := versions.Embedded(), map[string]string{}
	for name, v := range cell.options.Versions {
		ran[name] = v.String()
	}
	stored, acts := table.Works(versions.PeriodStored, ran).Works, table.Works(versions.PeriodicRefresh, ran).Works
	if named := table.Silent(ran) != ""; named != (stored && !acts) {
		t.Errorf("the table names this combination silent: %t, want %t", named, stored && !acts)
	}
	safe := preflight.AnswerOpen // at least the driver whose attacher nobody sees
	for _, p := range plants {
		want := slices.Clone(p.want)
		if !stored {
			want = slices.Clone(p.gateless)
		} else if !acts && p.period > 0 {
			want = append(want, "warning silent")
		}
		slices.Sort(want)
		i := slices.IndexFunc(result.Drivers, func(d preflight.DriverResult) bool { return d.Driver == p.driver() })
		if i < 0 {
			t.Errorf("%s: preflight does not see the driver", p.name)
			continue
		}
		var got []string
		for _, f := range result.Drivers[i].Findings {
			got = append(got, string(f.Level)+" "+f.Rule)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: want %q, got %q: %+v", p.name, want, got, result.Drivers[i].Findings)
		}
		if result.Drivers[i].Answer == preflight.AnswerNo {
			safe = preflight.AnswerNo
		}
	}
	if len(result.Cluster) != 0 || result.Safe != safe {
		t.Errorf("the cluster: want no finding and %s, got %s, %+v", safe, result.Safe, result.Cluster)
	}
}

// seeForbidden looks as a user who may read nothing: that is never a go.
func seeForbidden(t *testing.T, cell *testCluster) {
	config := rest.CopyConfig(cell.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, result := lookAt(t, client, preflight.Options{})
	if result.Safe != preflight.AnswerOpen || len(result.Cluster) < 5 || len(result.Drivers) != 0 {
		t.Errorf("as a user without rights: want it open, each read that is forbidden, and no driver, got %+v", result)
	}
	for _, f := range result.Cluster {
		if f.Rule != "unread" && f.Rule != "gate-unseen" || f.Level != preflight.Unknown {
			t.Errorf("as a user without rights: want what could not be read, got %+v", f)
		}
	}
}
