package kind

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"headroom/e2e/framework/cluster"
)

// server is what both clients of a pool write to. The fakes know nothing of each other, take a dry run for real, and delete neither collections nor what is
// in a namespace.
type server struct {
	// live has the labels of what is left of what was made, by resource, namespace and name; made are the same names, in order, and tried those of dry runs.
	live        map[string]labels.Set
	made, tried []string
}

// oneServer gives a pool's clients one server, which runs what pods its namespaces get.
func oneServer(c *Cluster) *server {
	s := &server{live: map[string]labels.Set{}}
	client, dynamic := c.client.(*fake.Clientset), c.dynamic.(*dynamicfake.FakeDynamicClient)
	key := func(a clienttesting.Action, name string) string {
		return a.GetResource().Resource + "/" + a.GetNamespace() + "/" + name
	}
	dynamic.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create := a.(clienttesting.CreateActionImpl)
		o := create.GetObject().(*unstructured.Unstructured)
		if len(create.CreateOptions.DryRun) > 0 {
			s.tried = append(s.tried, key(a, o.GetName()))
			return true, o, nil
		}
		s.made, s.live[key(a, o.GetName())] = append(s.made, key(a, o.GetName())), o.GetLabels()
		if o.GetKind() != "Namespace" {
			return false, nil, nil
		}
		return false, nil, client.Tracker().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Annotations: o.GetAnnotations()}})
	})
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pod := a.(clienttesting.CreateActionImpl).GetObject().(*corev1.Pod)
		if pod.Name == "" {
			pod.Name = pod.GenerateName + pod.Spec.NodeName
			for _, container := range pod.Spec.Containers {
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: container.Name})
			}
		}
		return false, nil, nil
	})
	gone := func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.DeleteActionImpl:
			inside := "/" + a.GetName() + "/"
			maps.DeleteFunc(s.live, func(k string, _ labels.Set) bool {
				return k == key(a, a.GetName()) || a.GetResource().Resource == "namespaces" && strings.Contains(k, inside)
			})
			if a.GetResource().Resource == "namespaces" {
				return false, nil, emptied(client.Tracker(), a.GetName())
			}
		case clienttesting.DeleteCollectionActionImpl:
			maps.DeleteFunc(s.live, func(k string, l labels.Set) bool {
				return strings.HasPrefix(k, key(a, "")) && a.ListRestrictions.Labels.Matches(l)
			})
		}
		return false, nil, nil
	}
	for _, f := range []*clienttesting.Fake{&client.Fake, &dynamic.Fake} {
		f.PrependReactor("delete", "*", gone)
		f.PrependReactor("delete-collection", "*", gone)
	}
	return s
}

// emptied takes the pods out of a namespace.
func emptied(all clienttesting.ObjectTracker, namespace string) error {
	r := corev1.SchemeGroupVersion.WithResource("pods")
	list, err := all.List(r, corev1.SchemeGroupVersion.WithKind("Pod"), namespace)
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range list.(*corev1.PodList).Items {
		errs = append(errs, all.Delete(r, namespace, pod.Name))
	}
	return errors.Join(errs...)
}

// refuses has a pool's server refuse what is of a resource and in a namespace.
func refuses(c *Cluster, resource, namespace string) {
	c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("create", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() != namespace {
			return false, nil, nil
		}
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: resource}, "x", nil)
	})
}

// TestDriverThatCannotBeAddedLeavesNothing: neither in its namespace nor outside any, whatever of it failed.
func TestDriverThatCannotBeAddedLeavesNothing(t *testing.T) {
	const name = "d.example"
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	for what, tc := range map[string]struct {
		ctx               context.Context
		definition, where string // where a DaemonSet or a Deployment is refused
		want              string
	}{
		"a manifest is refused":       {t.Context(), "steady-pods", namespaceOf(idOf(name)), "the API server refuses it"},
		"our own part is refused":     {t.Context(), "hostpath-pods", namespace, `create Deployment "controller-`},
		"its pod does not come":       {given, "steady-pods", "", "want one pod, got 0"},
		"a program's part is refused": {t.Context(), "steady", namespace, `create Deployment "controller-`},
		"a program's pod is not made": {given, "steady", "", "want one pod, got 0"},
	} {
		c := manifestPool(t)
		c.Drivers["hostpath-pods"], c.Drivers["steady"] = "hostpath-pods", "steady"
		s := oneServer(c)
		if tc.where != "" {
			refuses(c, "daemonsets", tc.where)
			refuses(c, "deployments", tc.where)
		}
		err := c.AddDriver(tc.ctx, cluster.DriverSpec{Name: name, Definition: tc.definition})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want %q, got %v", what, tc.want, err)
		}
		if len(s.live) > 0 {
			t.Errorf("%s: want nothing left, got %q", what, slices.Sorted(maps.Keys(s.live)))
		}
		if _, err := os.Stat(c.socketsDir(idOf(name))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: want no folder of sockets left, got %v", what, err)
		}
	}
}

// TestRemoveDriverLeavesTheOthers: what is in no namespace is told apart by its label.
func TestRemoveDriverLeavesTheOthers(t *testing.T) {
	c := manifestPool(t)
	s := oneServer(c)
	for _, name := range []string{"d.example", "e.example"} {
		readyPod(t, c, name, controllerPart, "c-control-plane")
		if err := c.AddDriver(t.Context(), cluster.DriverSpec{Name: name, Definition: "steady-pods"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.RemoveDriver(t.Context(), "d.example"); err != nil {
		t.Fatal(err)
	}
	gone, left := idOf("d.example"), idOf("e.example")
	var of []string
	for key := range s.live {
		if strings.Contains(key, gone) {
			t.Errorf("want nothing of the driver left, got %s", key)
		}
		if strings.Contains(key, left) {
			of = append(of, key)
		}
	}
	for _, want := range []string{"clusterroles//steady-", "clusterrolebindings//steady-", "priorityclasses//steady-", "namespaces//headroom-"} {
		if !slices.Contains(of, want+left) {
			t.Errorf("want %s of the other driver left, got %q", want+left, of)
		}
	}
}

// TestRemoveDriverAwaitsItsPods: they close their histories as they end.
func TestRemoveDriverAwaitsItsPods(t *testing.T) {
	c := manifestPool(t)
	readyPod(t, c, "d.example", nodePart, "c-worker")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.RemoveDriver(ctx, "d.example"); err == nil || !strings.Contains(err.Error(), "want no pod, got 1") {
		t.Errorf("want to wait in vain for the pod to go, got %v", err)
	}
}

// TestTrialMakesNothingThatStays: beside its namespace it makes for real only what pods need that pull images.
func TestTrialMakesNothingThatStays(t *testing.T) {
	in := namespaceOf(trial)
	for what, tc := range map[string]struct {
		definition, refused string
		made                []string
		tried               string
		want                string
	}{
		"images of its own":  {"steady-pods", "", nil, "daemonsets/" + in + "/steady-node", ""},
		"images of others":   {"hostpath-pods", "", []string{"serviceaccounts/" + in + "/csi-hostpathplugin"}, "serviceaccounts/" + in + "/csi-hostpathplugin", ""},
		"one is refused":     {"steady-pods", "daemonsets", nil, "deployments/" + in + "/steady-controller", "DaemonSet/steady-node: the API server refuses it"},
		"outside, one is so": {"steady-pods", "clusterroles", nil, "deployments/" + in + "/steady-controller", "ClusterRole/steady-trial: the API server refuses it"},
	} {
		c := manifestPool(t)
		c.Drivers["hostpath-pods"] = "hostpath-pods"
		s := oneServer(c)
		if tc.refused != "" {
			refuses(c, tc.refused, map[string]string{"daemonsets": in}[tc.refused])
		}
		def, _, err := c.load(tc.definition)
		if err != nil {
			t.Fatal(err)
		}
		err = c.tryOne(t.Context(), newSteps(new(bytes.Buffer)), tc.definition, def)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want %q, got %v", what, tc.want, err)
		}
		if made := append([]string{"namespaces//" + in}, tc.made...); !slices.Equal(s.made, made) {
			t.Errorf("%s: want only %q made, got %q", what, made, s.made)
		}
		if !slices.Contains(s.tried, tc.tried) {
			t.Errorf("%s: want the server asked of %s, got %q", what, tc.tried, s.tried)
		}
		if len(s.live) > 0 {
			t.Errorf("%s: want nothing left, got %q", what, slices.Sorted(maps.Keys(s.live)))
		}
	}
}
