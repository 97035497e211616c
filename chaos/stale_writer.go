package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// Ways in which a controller writes an object back.
const (
	VerbUpdate = "update"
	VerbPatch  = "patch" // a JSON merge patch, which replaces the whole list of drivers
	VerbApply  = "apply" // server-side apply, forced
)

// What a write says of the version that it was made from.
const (
	VersionOld   = "old"   // that of the read that the value comes from
	VersionNone  = "none"  // nothing
	VersionFresh = "fresh" // that of a new read, with the old value
)

// WriterParams are a stale writer's.
type WriterParams struct {
	// Verb is update, patch or apply.
	Verb string `yaml:"verb,omitempty"`
	// ResourceVersion is old, none or fresh.
	ResourceVersion string `yaml:"resourceVersion,omitempty"`
	// As is the API user that writes: "node" is the node of the CSINode, "other-node" another one; the administrator when left out.
	As string `yaml:"as,omitempty"`
	// Every is the time between two writes.
	Every history.Duration `yaml:"every,omitempty"`
}

// Check implements scenario.Checked.
func (p *WriterParams) Check() (field, remedy string, err error) {
	if verbs := []string{VerbUpdate, VerbPatch, VerbApply}; !slices.Contains(verbs, p.Verb) {
		return "verb", fmt.Sprintf("write one of %q", verbs), fmt.Errorf("no verb %q", p.Verb)
	}
	if versions := []string{VersionOld, VersionNone, VersionFresh}; !slices.Contains(versions, p.ResourceVersion) {
		return "resourceVersion", fmt.Sprintf("write one of %q", versions), fmt.Errorf("no resourceVersion %q", p.ResourceVersion)
	}
	return positive("every", p.Every)
}

func init() {
	define(Fault{
		Name: "stale-writer", Targets: []scenario.Class{scenario.CSINode},
		Doc: "A controller reads a CSINode once and writes it back again and again, whatever has become of it. Healing stops it; what it wrote stays until " +
			"the kubelet writes.",
	}, WriterParams{Verb: VerbPatch, ResourceVersion: VersionNone, Every: history.Duration(time.Second)},
		func(ctx context.Context, t Target, _ *rand.Rand, p *WriterParams) (Heal, error) {
			w, err := NewWriter(ctx, t, *p)
			if err != nil {
				return nil, err
			}
			writing, stop := context.WithCancel(context.WithoutCancel(ctx))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-writing.Done():
						return
					case <-time.After(time.Duration(p.Every)):
						_, _ = w.Write(writing) // its outcome is recorded; a controller tries again
					}
				}
			}()
			return func(context.Context) error {
				stop()
				<-done
				return nil
			}, nil
		})
}

// Writer is a controller with an old read of a CSINode.
type Writer struct {
	target Target
	params WriterParams
	client kubernetes.Interface
	user   string
	old    *storagev1.CSINode
}

// NewWriter reads the CSINode of the target.
func NewWriter(ctx context.Context, t Target, p WriterParams) (*Writer, error) {
	w := &Writer{target: t, params: p, client: t.Client, user: administrator}
	var err error
	if p.As != "" {
		config := t.Cluster.RESTConfig()
		config.Impersonate = t.identity(p.As)
		w.user = config.Impersonate.UserName
		if w.client, err = kubernetes.NewForConfig(config); err != nil {
			return nil, err
		}
	}
	w.old, err = t.Client.StorageV1().CSINodes().Get(ctx, t.Node(), metav1.GetOptions{})
	return w, err
}

// identity is the user of WriterParams.As.
func (t Target) identity(as string) rest.ImpersonationConfig {
	node := map[string]string{"node": t.Node(), "other-node": "other-than-" + t.Node()}[as]
	if node == "" {
		return rest.ImpersonationConfig{UserName: as}
	}
	return rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
}

// Write writes the old read back, and returns what the API server has then, or why it refused. With a fresh version it tries again when somebody else
// wrote in between, as such a controller does.
func (w *Writer) Write(ctx context.Context) (got *storagev1.CSINode, err error) {
	err = w.target.Record(w.params.Verb, "csinode", w.old.Name, w.user, func() error {
		once := func() error { got, err = w.once(ctx); return err }
		if w.params.ResourceVersion == VersionFresh {
			return retry.RetryOnConflict(retry.DefaultRetry, once)
		}
		return once()
	})
	return got, err
}

func (w *Writer) once(ctx context.Context) (*storagev1.CSINode, error) {
	object := w.old.DeepCopy()
	object.ManagedFields = nil
	switch w.params.ResourceVersion {
	case VersionNone:
		object.ResourceVersion = ""
	case VersionFresh:
		now, err := w.target.Client.StorageV1().CSINodes().Get(ctx, object.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		object.ResourceVersion = now.ResourceVersion
	}
	nodes := w.client.StorageV1().CSINodes()
	if w.params.Verb == VerbUpdate {
		return nodes.Update(ctx, object, metav1.UpdateOptions{})
	}
	body, err := w.body(object)
	if err != nil {
		return nil, err
	}
	kind, options := types.MergePatchType, metav1.PatchOptions{}
	if w.params.Verb == VerbApply {
		force := true
		kind, options = types.ApplyPatchType, metav1.PatchOptions{FieldManager: "stale-writer", Force: &force}
	}
	return nodes.Patch(ctx, object.Name, kind, body, options)
}

// body is what a patch or an apply sends: the list of drivers as it was, and the version if one is to be told.
func (w *Writer) body(object *storagev1.CSINode) ([]byte, error) {
	if w.target.entry(object) == nil {
		return nil, errors.New("the old read has no entry of the driver, so it has no count to write back")
	}
	meta := map[string]any{"name": object.Name}
	if object.ResourceVersion != "" {
		meta["resourceVersion"] = object.ResourceVersion
	}
	body := map[string]any{"metadata": meta, "spec": map[string]any{"drivers": object.Spec.Drivers}}
	if w.params.Verb == VerbApply {
		body["apiVersion"], body["kind"] = "storage.k8s.io/v1", "CSINode"
	}
	return json.Marshal(body)
}
