package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
)

func init() {
	define(Fault{
		Name: "node-replace", Targets: []scenario.Class{scenario.OnNode},
		Doc: "Somebody deletes a Node and makes it again: the same name and another UID, under a kubelet that runs on. Healing restarts the kubelet, which " +
			"remembers the UID of its start.",
	}, none{}, func(ctx context.Context, t Target, _ *rand.Rand, _ *none) (Heal, error) {
		kubelet := t
		kubelet.Class = scenario.Kubelet
		c, err := kubelet.Component(ctx)
		if err != nil {
			return nil, err
		}
		if err := ReplaceNode(ctx, t); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			if err := c.Stop(ctx, cluster.Terminate); err != nil {
				return err
			}
			return c.Start(ctx, "")
		}, nil
	})
}

// goneWithin bounds the wait for an object that is deleted to be gone.
const goneWithin = 30 * time.Second

// ReplaceNode deletes the target's Node and makes it again as a user would have written it: what the kubelet and the controllers say of it is theirs to
// say again.
func ReplaceNode(ctx context.Context, t Target) error {
	nodes, name := t.Client.CoreV1().Nodes(), t.Node()
	return t.Record("replace", "node", name, administrator, func() error {
		old, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := nodes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, goneWithin, true, func(ctx context.Context) (bool, error) {
			_, err := nodes.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil // asked again; the time-out tells if it stays
		})
		if err != nil {
			return fmt.Errorf("node %q: want it gone within %s of its deletion: %w", name, goneWithin, err)
		}
		old.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: old.Labels, Annotations: old.Annotations}
		_, err = nodes.Create(ctx, old, metav1.CreateOptions{})
		return err
	})
}
