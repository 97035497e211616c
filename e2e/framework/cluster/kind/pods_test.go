package kind

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"headroom/drivers/pods"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/archive"
	"headroom/e2e/framework/unixsocket"
)

// podsFixture is a definition of a driver that runs by its author's manifests.
const podsFixture = "../../../../drivers/pods/testdata/steady"

// withManifests copies the fixture, with an image of the files given, and returns the definition's path.
func withManifests(t *testing.T, files ...archive.File) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(podsFixture)); err != nil {
		t.Fatal(err)
	}
	saveImage(t, filepath.Join(dir, "steady.tar"), archive.Image{Ref: "headroom.test/steady:1", Files: files})
	return filepath.Join(dir, "driver.yaml")
}

// saveImage writes an image's archive.
func saveImage(t *testing.T, path string, i archive.Image) {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(archive.Write(out, i), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// manifestPool is a pool whose driver runs by manifests, on a false API server that gives tokens.
func manifestPool(t *testing.T) *Cluster {
	t.Helper()
	c := pool(t)
	c.Drivers = map[string]string{"steady-pods": withManifests(t)}
	c.Image, c.Attacher, c.Address, c.Run, c.rest = "headroom:1", "attacher:1", "10.0.0.2", "r", &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}
	client := c.client.(*fake.Clientset)
	client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "token" || a.GetNamespace() != namespace {
			return false, nil, nil
		}
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "token of " + a.(clienttesting.CreateActionImpl).Name}}, nil
	})
	c.dynamic = dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
	return c
}

func TestPodsAreGivenTheContainersOfOurOwn(t *testing.T) {
	c := manifestPool(t)
	r, err := c.renderPods(t.Context(), "d.example", "abc", "steady-pods")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, o := range r.Objects {
		if spec, _ := podSpecOf(o); o.GetName() == "steady-node" && !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == "state" && v.HostPath != nil && v.HostPath.Path == "/var/lib/headroom/abc"
		}) {
			t.Errorf("want the driver's state in a folder of its own, got volumes %v", spec.Volumes)
		}
		if o.GetKind() == "Secret" {
			if data, _, err := unstructured.NestedStringMap(o.Object, "stringData"); err != nil || data["token"] != "token of csi-attacher" || data["ca.crt"] != "ca" {
				t.Errorf("want the attacher's credentials, got %v (error: %v)", data, err)
			}
		}
		spec, ok := podSpecOf(o)
		if !ok || o.GetName() == "steady-metrics" {
			continue
		}
		for _, container := range spec.Containers {
			words := strings.Join(slices.Concat(container.Command, container.Args), " ")
			seen = append(seen, o.GetKind()+" "+container.Name)
			switch container.Name {
			case "steady":
				if !strings.Contains(words, "--driver-name=d.example") || container.ImagePullPolicy != corev1.PullIfNotPresent {
					t.Errorf("want the driver named, its image loaded, got %q, %s", words, container.ImagePullPolicy)
				}
			case "gate":
				if !strings.Contains(words, "--driver=unix:///headroom/driver/csi.sock --driver-name=d.example") || container.Image != "headroom:1" {
					t.Errorf("want the gate to call the driver, got %q of image %s", words, container.Image)
				}
			}
		}
	}
	if want := []string{"DaemonSet steady", "DaemonSet gate", "Deployment steady", "Deployment gate", "Deployment attacher"}; !slices.Equal(seen, want) {
		t.Errorf("want containers %q, got %q", want, seen)
	}
}

// readyPod puts a driver's pod into the pool.
func readyPod(t *testing.T, c *Cluster, name, part, node string) {
	t.Helper()
	id := idOf(name)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: part, Namespace: namespaceOf(id), Labels: map[string]string{driverLabel: id, partLabel: part},
			Annotations: map[string]string{driverNameKey: name, pods.ContainerKey: "steady"},
		},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "steady"}, {Name: gateContainer}, {Name: attacherContainer}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if _, err := c.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAddDriverByManifests(t *testing.T) {
	c := manifestPool(t)
	const name = "d.example"
	readyPod(t, c, name, controllerPart, "c-control-plane")
	if err := c.AddDriver(t.Context(), cluster.DriverSpec{Name: name, Definition: "steady-pods"}); err != nil {
		t.Fatal(err)
	}
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	if o, err := c.dynamic.Resource(roles).Get(t.Context(), "steady-"+idOf(name), metav1.GetOptions{}); err != nil || o.GetLabels()[driverLabel] != idOf(name) {
		t.Errorf("want the author's role under a name of the driver's, got %v (error: %v)", o, err)
	}
	var ids []string
	all, err := c.Components(t.Context())
	for _, p := range all {
		ids = append(ids, p.ID())
	}
	if err != nil || !slices.Contains(ids, "driver-controller@"+name) || !slices.Contains(ids, "csi-attacher@"+name) {
		t.Errorf("want the controller and the attacher among the components, got %q (error: %v)", ids, err)
	}
}

// TestAddDriverWhosePodsServeControllerCalls: its gate and attacher wait for the first node, and the gate looks where the nodes' pods have their sockets.
func TestAddDriverWhosePodsServeControllerCalls(t *testing.T) {
	c := manifestPool(t)
	c.Drivers = map[string]string{"hostpath-pods": "hostpath-pods"}
	const name = "d.example"
	if err := c.AddDriver(t.Context(), cluster.DriverSpec{Name: name, Definition: "hostpath-pods"}); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join("kind", "drivers", idOf(name))
	shared, inside := filepath.Join(c.RunDir, below), filepath.Join("/headroom/run", below)
	for _, worker := range c.Workers {
		if info, err := os.Stat(filepath.Join(shared, worker)); err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("want a folder for worker %s that any driver may write to, got %v (error: %v)", worker, info, err)
		}
	}
	d, err := c.dynamic.Resource(resources["Deployment"]).Namespace(namespace).Get(t.Context(), "controller-"+idOf(name), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	controller, _ := podSpecOf(pods.Object{Unstructured: d})
	gate := strings.Join(controller.Containers[0].Command, " ")
	replicas := d.Object["spec"].(map[string]any)["replicas"]
	if fmt.Sprint(replicas) != "0" || !strings.Contains(gate, " --nodes="+inside+" --node-suffix=/csi.sock ") {
		t.Errorf("want a gate to the nodes' drivers, not started yet, got %v replicas of %q", replicas, gate)
	}
	o, err := c.dynamic.Resource(resources["DaemonSet"]).Namespace(namespaceOf(idOf(name))).Get(t.Context(), "csi-hostpathplugin", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := podSpecOf(pods.Object{Unstructured: o})
	if i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil && v.HostPath.Path == inside }); i < 0 {
		t.Errorf("want the driver's socket in %s, got volumes %v", inside, spec.Volumes)
	}
	if err := c.RemoveDriver(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(shared); err == nil {
		t.Error("want the sockets' folder gone with the driver")
	}
}

// TestSocketsOfNodes: any driver may write to the folders that its containers have, and one gate must be able to call all.
func TestSocketsOfNodes(t *testing.T) {
	c := manifestPool(t)
	const name = "d.example"
	for range 2 { // after one that was not removed
		if err := c.makeNodeSockets(name, "a/b"); err != nil {
			t.Fatal(err)
		}
	}
	for _, worker := range c.Workers {
		for _, below := range []string{"", "a", "a/b"} {
			if info, err := os.Stat(filepath.Join(c.socketsDir(idOf(name)), worker, below)); err != nil || info.Mode().Perm() != 0o777 {
				t.Errorf("want folder %q of %s open to all, got %v (error: %v)", below, worker, info, err)
			}
		}
	}
	room := unixsocket.MaxPath - len("/headroom/run/"+sockets(idOf(name))+"/c-worker2/")
	if err := c.reachable(name, strings.Repeat("x", room)); err != nil {
		t.Errorf("a path that just fits: got %v", err)
	}
	var input *cluster.InputError
	if err := c.reachable(name, strings.Repeat("x", room+1)); !errors.As(err, &input) || !strings.Contains(err.Error(), "pods.node.socket: ") || !strings.Contains(err.Error(), "108 bytes: want at most 107") {
		t.Errorf("a byte more: want an InputError that names the field, got %v", err)
	}
}

// TestManifestsThatTheServerRefuses: it is the author's input, told by file and object, and nothing is left.
func TestManifestsThatTheServerRefuses(t *testing.T) {
	c := manifestPool(t)
	c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("create", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, "steady-node", nil)
	})
	err := c.AddDriver(t.Context(), cluster.DriverSpec{Name: "d.example", Definition: "steady-pods"})
	var input *cluster.InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "deploy/driver.yaml:6: DaemonSet/steady-node: the API server refuses it: ") || strings.HasPrefix(err.Error(), "environment") {
		t.Errorf("want an InputError with file, line, object and the server's words, got %v", err)
	}
	o := pods.Object{Unstructured: &unstructured.Unstructured{}, File: "f.yaml", Line: 1}
	for name, other := range map[string]error{
		"no answer":  &url.Error{Op: "Post", URL: "https://x", Err: errors.New("refused")},
		"overloaded": apierrors.NewTooManyRequests("later", 1), "its own fault": apierrors.NewInternalError(errors.New("x")), "no credentials": apierrors.NewUnauthorized("x"),
		"too slow": &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusRequestTimeout}},
	} {
		if err := refused(o, other); errors.As(err, &input) || err == nil {
			t.Errorf("%s: want no mistake of the author's, got %v", name, err)
		}
	}
	o.File = ""
	if err := refused(o, apierrors.NewBadRequest("x")); errors.As(err, &input) {
		t.Errorf("an object of ours: want no mistake of the author's, got %v", err)
	}
}

func TestDriverFailure(t *testing.T) {
	waiting := func(name, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "the kubelet's words"}}}
	}
	crashed := waiting("helper", "CrashLoopBackOff")
	crashed.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 7}
	own := corev1.ContainerStatus{Name: "steady", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 9}}}
	for name, c := range map[string]struct {
		status          corev1.ContainerStatus
		container, want string
	}{
		"the driver ends":          {own, "steady", "it ended by itself (Error, exit code 9)"},
		"another ends":             {crashed, "helper", "its container helper ends again and again (Error, exit code 7)"},
		"a secret is missing":      {waiting("helper", "CreateContainerConfigError"), "helper", "its container helper does not start: CreateContainerConfigError: the kubelet's words"},
		"it has no such program":   {waiting("steady", "RunContainerError"), "steady", "its container steady does not start: RunContainerError"},
		"it is being made":         {waiting("steady", "ContainerCreating"), "", ""},
		"an image is being pulled": {waiting("steady", "ErrImagePull"), "", ""},
		"before it, another ends":  {crashed, "helper", "its container helper ends again and again (Error, exit code 7)"},
		"before it, one is made":   {waiting("helper", "PodInitializing"), "", ""},
		"one of ours":              {waiting("gate", "CrashLoopBackOff"), "", ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{pods.ContainerKey: "steady"}}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c.status}}}
		if strings.HasPrefix(name, "before it") {
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = pod.Status.ContainerStatuses, nil
		}
		if container, why := driverFailure(pod); container != c.container || !strings.HasPrefix(why, c.want) || (why == "") != (c.want == "") {
			t.Errorf("%s: want %q of container %q, got %q of %q", name, c.want, c.container, why, container)
		}
	}
}

func TestPullState(t *testing.T) {
	pod := func(s corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			Spec:   corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "image-0"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "image-0", Image: "r.example/d:1", State: s}}},
		}
	}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "dial tcp: lookup r.example: no such host"}}
	}
	for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
		err := pullState(pod(waiting(reason)))
		var env *cluster.EnvironmentError
		var final *permanent
		if !errors.As(err, &env) || !errors.As(err, &final) {
			t.Fatalf("%s: want an EnvironmentError at once, got %v", reason, err)
		}
		for _, want := range []string{`image "r.example/d:1" on node n1`, "no such host", "pods.images", "registry"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want %q in it, got %v", reason, want, err)
			}
		}
	}
	var input *cluster.InputError
	if err := pullState(pod(waiting("InvalidImageName"))); !errors.As(err, &input) {
		t.Errorf("a name that is none: want an InputError, got %v", err)
	}
	var final *permanent
	if err := pullState(pod(waiting("ContainerCreating"))); err == nil || errors.As(err, &final) {
		t.Errorf("want to wait while it is pulled, got %v", err)
	}
	for _, s := range []corev1.ContainerState{waiting("RunContainerError"), {Terminated: &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128}}} {
		if err := pullState(pod(s)); err != nil {
			t.Errorf("an image that is there: want nothing, got %v", err)
		}
	}
	if err := pullState(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}); err == nil {
		t.Error("a pod of which its kubelet has said nothing: want to wait")
	}
}

func TestPodsPackable(t *testing.T) {
	path := withManifests(t)
	if err := packable(path); err != nil {
		t.Errorf("want it packable, got %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "DaemonSet/steady-node", "DaemonSet/none", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := packable(path); err == nil || !strings.Contains(err.Error(), "pods.node.workload") {
		t.Errorf("a workload of no manifest: want it named in the error, got %v", err)
	}
	if err := packable("hostpath-pods"); err != nil {
		t.Errorf("nodes that serve controller calls: want it packable, got %v", err)
	}
}
