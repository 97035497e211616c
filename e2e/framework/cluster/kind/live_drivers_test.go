package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/fixtures/quota"
)

// bridged puts a driver on the first worker that has neither a limit nor a controller of its own: the count that the kubelet writes is the backend's.
func bridged(t *testing.T, c *Cluster) {
	t.Helper()
	name, worker, ctx := "gated.live.test", c.Workers[0], t.Context()
	control := quota.NewControl(c.Backend())
	for _, step := range []func() error{
		func() error { _, err := c.Reserve(ctx, []cluster.NodeSpec{{}}); return err },
		func() error { return control.ForceRemoveNode(ctx, worker) }, // which an earlier driver had
		func() error { return control.AddNode(ctx, worker, quota.NodeConfig{Limit: 4}) },
		func() error { return c.AddDriver(ctx, cluster.DriverSpec{Name: name, Definition: "hostpath-gate"}) },
		func() error { return c.AddNode(ctx, cluster.NodeSpec{Name: worker, Drivers: []string{name}}) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	n, err := c.client.StorageV1().CSINodes().Get(ctx, worker, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name })
	if i < 0 || n.Spec.Drivers[i].Allocatable == nil || n.Spec.Drivers[i].Allocatable.Count == nil || *n.Spec.Drivers[i].Allocatable.Count != 4 {
		t.Errorf("want the backend's limit of 4 in CSINode %s, got %+v", worker, n.Spec.Drivers)
	}
	wantComponents(t, c, name, "csi-attacher@"+name, "driver@"+worker+"/"+name)
	for _, err := range []error{c.RemoveNode(ctx, worker), c.RemoveDriver(ctx, name), control.ForceRemoveNode(ctx, worker)} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(c.socketsDir(idOf(name))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("want no sockets of the driver left, got %v", err)
	}
}

// wantComponents looks for the components of a driver.
func wantComponents(t *testing.T, c *Cluster, driver string, want ...string) {
	t.Helper()
	all, err := c.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range all {
		if strings.HasSuffix(p.ID(), driver) {
			ids = append(ids, p.ID())
		}
	}
	if slices.Sort(ids); !slices.Equal(ids, want) {
		t.Errorf("want components %q, got %q", want, ids)
	}
}

// provisioned has a claim's volume made and deleted by external-provisioner, through a driver that needs no node for it.
func provisioned(t *testing.T, c *Cluster) {
	t.Helper()
	name := "dynamic.live.test"
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	if err := c.AddDriver(ctx, cluster.DriverSpec{Name: name, Definition: "steady-dynamic"}); err != nil {
		t.Fatal(err)
	}
	wantComponents(t, c, name, "csi-attacher@"+name, "csi-provisioner@"+name, "driver-controller@"+name)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "live"}, Provisioner: name}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "live"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
	}}
	claims := c.client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault)
	if _, err := c.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := poll(ctx, "the claim to be bound", func() error {
		got, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("it is %s", got.Status.Phase)
		}
		return err
	})
	if err == nil {
		err = claims.Delete(ctx, claim.Name, metav1.DeleteOptions{})
	}
	if err == nil {
		err = poll(ctx, "its volume to be deleted", func() error {
			all, err := c.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
			if err == nil && len(all.Items) > 0 {
				err = fmt.Errorf("want none, got %d, the first %s", len(all.Items), all.Items[0].Status.Phase)
			}
			return err
		})
	}
	for _, err := range []error{err, c.RemoveDriver(t.Context(), name)} {
		if err != nil {
			t.Error(err)
		}
	}
}
