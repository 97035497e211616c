package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"headroom/chaos"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/scenario"
	"headroom/fixtures/manifests"
)

// guardEffect bounds the time until the API server acts on a policy that was applied or removed.
const guardEffect = 30 * time.Second

// guarded puts the guard of fixtures/manifests before the bench's own CSINodes for as long as f runs. maxGrowth replaces the manifest's, unless it is
// "". Other benches of the cluster do not see the guard.
func guarded(ctx context.Context, b *run.Bench, maxGrowth string, f func()) {
	policy, binding, err := readGuard()
	b.Check(cluster.Environment("read the guard's manifest", err))
	policy.Name, binding.Name, binding.Spec.PolicyName = "guard-"+b.Scope, "guard-"+b.Scope, "guard-"+b.Scope
	policy.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "own-nodes", Expression: ownNodes(append([]string{newNode(b)}, b.Nodes...))}}
	if maxGrowth != "" {
		policy.Spec.Variables[0].Expression = maxGrowth
	}
	api := b.Client.AdmissionregistrationV1()
	defer func() { // a bench that is kept must be usable
		ctx := context.WithoutCancel(ctx)
		err := errors.Join(api.ValidatingAdmissionPolicyBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}),
			api.ValidatingAdmissionPolicies().Delete(ctx, policy.Name, metav1.DeleteOptions{}))
		b.Problem("remove the guard", err)
	}()
	_, err = api.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
	b.Check(err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	b.Check(err)
	// A dry run by somebody else is denied once the guard is in effect.
	b.Await(ctx, guardEffect, func(ctx context.Context) error {
		n, err := b.Client.StorageV1().CSINodes().Get(ctx, b.Nodes[0], metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Drivers = nil
		_, err = b.Client.StorageV1().CSINodes().Update(ctx, n, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("guard: want a stranger's write to be denied, got %v", err)
		}
		return nil
	})
	f()
}

// newNode is the name of a node that does not exist, and which the guard of a bench covers.
func newNode(b *run.Bench) string { return b.Scope + "-new" }

// ownNodes is the CEL expression that is true for requests about these nodes. A bench's nodes may have any name: some providers lend what they have.
func ownNodes(names []string) string {
	list, err := json.Marshal(names)
	if err != nil {
		panic(fmt.Sprintf("names of nodes: %v", err)) // strings always encode
	}
	return fmt.Sprintf("request.name in %s", list)
}

// readGuard reads the two objects of the manifest.
func readGuard() (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding, error) {
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	in := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests.Guard)))
	for _, into := range []any{policy, binding} {
		doc, err := in.Read()
		if err != nil {
			return nil, nil, err
		}
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			return nil, nil, err
		}
	}
	if _, err := in.Read(); !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("csinode-guard.yaml: want two objects, got more (%v)", err)
	}
	if v := policy.Spec.Variables; len(v) == 0 || v[0].Name != "maxGrowth" {
		return nil, nil, fmt.Errorf("csinode-guard.yaml: want maxGrowth as the first variable, got %v", v)
	}
	return policy, binding, nil
}

// staleWriter is a controller that has read the CSINode of the bench's first node now, and will write that back.
func staleWriter(ctx context.Context, b *run.Bench, p chaos.WriterParams) *chaos.Writer {
	w, err := chaos.NewWriter(ctx, chaos.Target{
		Target: scenario.Target{Class: scenario.CSINode, Node: 1}, Nodes: b.Nodes, Driver: b.Driver, Cluster: b.Cluster, Client: b.Client, Quota: b.Quota, Record: b.Record,
	}, p)
	b.Check(err)
	return w
}
