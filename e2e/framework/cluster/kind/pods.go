package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"headroom/drivers"
	"headroom/drivers/pods"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/input"
	"headroom/e2e/framework/unixsocket"
	"headroom/fixtures/manifests"
)

// partLabel says what of a driver a pod is.
const (
	partLabel      = pods.PartLabel
	nodePart       = "node"
	controllerPart = "controller"
)

// podsOf selects the pods of a driver's part.
func podsOf(id, part string) string { return driverLabel + "=" + id + "," + partLabel + "=" + part }

// namespaceOf is the namespace of a driver that runs by manifests of its author's. It has no other driver, so that names in manifests stay what they are.
func namespaceOf(id string) string { return namespace + "-" + id }

// addPods starts a driver by its author's manifests.
func (c *Cluster) addPods(ctx context.Context, s cluster.DriverSpec) (err error) {
	name := s.Name
	op := "add driver " + name
	r, err := c.renderPods(ctx, name, idOf(name), s.Definition)
	if err != nil {
		return cluster.Environment(op, err)
	}
	defer func() {
		if err != nil {
			err = cluster.Environment(op, errors.Join(err, c.RemoveDriver(context.WithoutCancel(ctx), name)))
		}
	}()
	if r.Socket != "" {
		if err := c.makeNodeSockets(name, r.Shared); err != nil {
			return err
		}
	}
	for _, o := range r.Objects {
		if err := c.createObject(ctx, o, nil); err != nil {
			return err
		}
	}
	if r.Socket == "" {
		return c.awaitPod(ctx, drivers.Start{}, podsOf(idOf(name), controllerPart), &cluster.DriverError{Driver: name}, "")
	}
	text, _, err := c.driverManifest(s, "/"+r.Socket)
	if err != nil {
		return err
	}
	return c.apply(ctx, text)
}

// renderPods makes a driver's objects: the author's, with the containers that pods of ours have.
func (c *Cluster) renderPods(ctx context.Context, name, id, definition string) (pods.Rendered, error) {
	def, reference, err := c.load(definition)
	if err != nil {
		return pods.Rendered{}, err
	}
	i := c.instance(name)
	values := c.values(def, name, definition, reference)
	values.ID, values.Set, values.Endpoint, values.Sockets = id, anySet, i.Endpoint, ""
	run := pods.Run{ID: id, Name: name, Namespace: namespaceOf(id), Annotations: map[string]string{definitionKey: definition}, Endpoint: i.Endpoint}
	if run.Node, err = only("driver-node.yaml", values); err != nil {
		return pods.Rendered{}, err
	}
	if def.PodsHaveController() {
		err = c.addController(ctx, &run, values)
	} else {
		run.Sockets = path.Join(nodeRunDir, sockets(id))
	}
	if err != nil {
		return pods.Rendered{}, err
	}
	i.StateDir = "/var/lib/headroom/" + id
	r, err := def.Pods(i, run)
	if err == nil && r.Socket != "" {
		err = c.reachable(name, r.Socket)
	}
	return r, err
}

// reachable says whether the gate of controller calls can call the sockets of all nodes.
func (c *Cluster) reachable(driver, socket string) error {
	for _, node := range c.Workers {
		if at := path.Join(nodeRunDir, sockets(idOf(driver)), node, socket); len(at) > unixsocket.MaxPath {
			return &cluster.InputError{
				Err:    fmt.Errorf("pods.node.socket: Headroom calls it at %q, which has %d bytes: want at most %d", at, len(at), unixsocket.MaxPath),
				Remedy: "mount the volume of the socket nearer to it, so that less of its path is below the volume",
			}
		}
	}
	return nil
}

// addController adds what a controller's pod gets.
func (c *Cluster) addController(ctx context.Context, run *pods.Run, values manifests.Driver) (err error) {
	if run.Controller, err = only("driver.yaml", values); err != nil {
		return err
	}
	account, _, err := unstructured.NestedString(run.Controller.Object, "spec", "template", "spec", "serviceAccountName")
	if err != nil {
		return err
	}
	run.Token, err = c.token(ctx, account)
	return err
}

// only is the one object of a manifest of ours.
func only(file string, values manifests.Driver) (*unstructured.Unstructured, error) {
	manifest, err := manifests.Render(file, values)
	if err != nil {
		return nil, err
	}
	var o unstructured.Unstructured
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096).Decode(&o.Object); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return &o, nil
}

// addedPods is the definition of a driver that runs by its author's manifests; nil for others.
func (c *Cluster) addedPods(ctx context.Context, driver string) (*drivers.Definition, error) {
	n, err := c.client.CoreV1().Namespaces().Get(ctx, namespaceOf(idOf(driver)), metav1.GetOptions{})
	if err != nil {
		return nil, unlessGone(err)
	}
	def, _, err := c.load(n.Annotations[definitionKey])
	return def, err
}

// tokenLife is longer than any run.
const tokenLife = 7 * 24 * 60 * 60

// token has the files that a pod of a service account of ours finds its credentials in.
func (c *Cluster) token(ctx context.Context, account string) (map[string]string, error) {
	life := int64(tokenLife)
	answer, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token of service account %q: %w", account, err)
	}
	return map[string]string{"token": answer.Status.Token, "ca.crt": string(c.rest.CAData), corev1.ServiceAccountNamespaceKey: namespace}, nil
}

// createObject creates an object; dryRun is the API server's word for only seeming to. What the server refuses of a manifest is its author's to mend.
func (c *Cluster) createObject(ctx context.Context, o pods.Object, dryRun []string) error {
	r, namespaced := o.Resource()
	var client dynamic.ResourceInterface = c.dynamic.Resource(r)
	if namespaced {
		client = c.dynamic.Resource(r).Namespace(o.GetNamespace())
	}
	_, err := client.Create(ctx, o.Unstructured, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun})
	return refused(o, err)
}

// refused tells the refusal of an author's object from a server that could not be asked.
func refused(o pods.Object, err error) error {
	var status apierrors.APIStatus
	if err == nil || o.File == "" || !errors.As(err, &status) {
		return err
	}
	code := status.Status().Code
	if code < 400 || code >= 500 || code == 401 || code == 408 || code == 429 {
		return fmt.Errorf("create %s of %s: %w", o, o.File, err)
	}
	return &cluster.InputError{Err: o.Problem("", "correct it, or take it out of pods.manifests", "the API server refuses it: %v", err)}
}

// removePods takes away what a driver has that runs by manifests of its author's.
func (c *Cluster) removePods(ctx context.Context, id string) error {
	_, err := c.client.CoreV1().Namespaces().Get(ctx, namespaceOf(id), metav1.GetOptions{})
	if err != nil {
		return unlessGone(err)
	}
	errs := []error{unlessGone(c.client.CoreV1().Namespaces().Delete(ctx, namespaceOf(id), metav1.DeleteOptions{}))}
	for _, r := range pods.ClusterScoped() {
		errs = append(errs, c.dynamic.Resource(r).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: driverLabel + "=" + id}))
	}
	return errors.Join(errs...)
}

// driverIn is what the driver's container is called in a pod.
func driverIn(pod *corev1.Pod) string {
	if name := pod.Annotations[pods.ContainerKey]; name != "" {
		return name
	}
	return driverContainer
}

// unstartable are why a container never starts, however long one waits; all are in what its author wrote.
var unstartable = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff", "InvalidImageName"}

// driverFailure says how the driver of a pod failed, and in which container: the driver's own ended, or, in an author's pod, another than ours does not start.
func driverFailure(pod *corev1.Pod) (container, why string) {
	own := driverIn(pod)
	if why, _ := ended(pod, own); why != "" || pod.Annotations[pods.ContainerKey] == "" {
		return own, why
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := s.State.Waiting
		if w == nil || slices.Contains(pods.Added, s.Name) || !slices.Contains(unstartable, w.Reason) {
			continue
		}
		if t := s.LastTerminationState.Terminated; t != nil {
			return s.Name, fmt.Sprintf("its container %s ends again and again (%s, exit code %d)", s.Name, t.Reason, t.ExitCode)
		}
		return s.Name, fmt.Sprintf("its container %s does not start: %s: %s", s.Name, w.Reason, w.Message)
	}
	return "", ""
}

// podDefinitions are those of the run that run by manifests.
func (c *Cluster) podDefinitions() (all map[string]*drivers.Definition, err error) {
	all = map[string]*drivers.Definition{}
	for name := range c.Drivers {
		def, _, err := c.load(name)
		if err != nil {
			return nil, err
		}
		if def.HasPods() {
			all[name] = def
		}
	}
	return all, nil
}

// loadArchives puts the images that definitions bring onto a node.
func (c *Cluster) loadArchives(ctx context.Context, node string) error {
	all, err := c.podDefinitions()
	if err != nil {
		return err
	}
	for _, def := range all {
		for _, file := range def.ImageArchives() {
			in, err := input.OpenRegular(file, "correct pods.images of the driver's definition")
			if err != nil {
				return &cluster.InputError{Err: err}
			}
			err = errors.Join(importImages(ctx, node, in), in.Close())
			if err != nil {
				return fmt.Errorf("load %s: %w", file, err)
			}
		}
	}
	return nil
}

// importImages reads an archive of images into a node.
func importImages(ctx context.Context, node string, archive io.Reader) error {
	_, err := engine.Feed(ctx, archive, "exec", "--interactive", node, "ctr", "--namespace", "k8s.io", "images", "import", "--digests", "--snapshotter", "overlayfs", "-")
	return err
}
