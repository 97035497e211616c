package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// namespace is where everything of ours is.
const namespace = "headroom"

// resources are the kinds of objects that manifests may have.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Deployment":         {Group: "apps", Version: "v1", Resource: "deployments"},
	"DaemonSet":          {Group: "apps", Version: "v1", Resource: "daemonsets"},
}

// apply creates the objects of a manifest. One that exists is an error: each is made once.
func (c *Cluster) apply(ctx context.Context, manifest []byte) error {
	in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var o unstructured.Unstructured
		if err := in.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read manifest: %w", err)
		}
		if len(o.Object) == 0 {
			continue // a document of comments
		}
		client, err := c.resource(&o)
		if err != nil {
			return err
		}
		if _, err := client.Create(ctx, &o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			return fmt.Errorf("create %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

func (c *Cluster) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	r, ok := resources[o.GetKind()]
	if !ok {
		return nil, fmt.Errorf("manifest has a %s %q, of a kind that is not applied here", o.GetKind(), o.GetName())
	}
	if o.GetNamespace() == "" {
		return c.dynamic.Resource(r), nil
	}
	return c.dynamic.Resource(r).Namespace(o.GetNamespace()), nil
}

// unlessGone drops the error that something is not there.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
