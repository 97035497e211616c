package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
)

// stored is a change of a CSINode as etcd keeps it.
func stored(t *testing.T, l logged) cluster.Stored {
	t.Helper()
	var n storagev1.CSINode
	text, err := json.Marshal(l.obj)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	n.ResourceVersion = ""
	n.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("CSINode"))
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(&n, &b); err != nil {
		t.Fatal(err)
	}
	return cluster.Stored{Key: "/registry/csinodes/" + n.Name, Rev: l.rev, Created: l.kind == "ADDED", Deleted: l.kind == "DELETED", Value: b.Bytes()}
}

// TestMemoryFillsTheGap restarts an API server that forgets, over a store that does not: nothing is missing, and nothing is a gap.
func TestMemoryFillsTheGap(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func([]cluster.Stored) ([]cluster.Stored, error)
		gap   string // what the reason of the gap must hold; "" for no gap
	}{
		"all of it": {func(all []cluster.Stored) ([]cluster.Stored, error) { return all, nil }, ""},
		"one is missing": {func(all []cluster.Stored) ([]cluster.Stored, error) { return all[:len(all)-2], nil },
			`leave "n2" at revision 0, and the list has it at 105`},
		"a deletion is missing": {func(all []cluster.Stored) ([]cluster.Stored, error) { return append(all[:2:2], all[3]), nil },
			`leave "n1", which the list does not have`},
		"one cannot be read": {func(all []cluster.Stored) ([]cluster.Stored, error) {
			all[0].Value = []byte("nonsense")
			return all, nil
		},
			`decode "/registry/csinodes/n1" of revision 102`},
		"the store forgot": {func([]cluster.Stored) ([]cluster.Stored, error) { return nil, errors.New("compacted") }, "compacted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := newFakeAPI(t)
			f.put(csinodesPath, csinode("n1", "a", 8)) // 101
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			w, err := start(ctx, f.config(), dir, "run-1", testTiming, func(_ context.Context, after, upTo int64) ([]cluster.Stored, error) {
				all := []cluster.Stored{}
				f.mu.Lock()
				log := append([]logged(nil), f.log[csinodesPath]...)
				f.mu.Unlock()
				for _, l := range log {
					if l.rev > after && l.rev <= upTo {
						all = append(all, stored(t, l))
					}
				}
				return c.spoil(append(all, cluster.Stored{Key: "/registry/leases/kube-node-lease/n1", Rev: upTo, Value: []byte("not of this stream")}))
			})
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = w.Close() }()
			f.cut(func() { f.refuse = 503 })
			f.put(csinodesPath, csinode("n1", "a", 5))    // 102
			f.put(csinodesPath, csinode("n1", "a", 6))    // 103
			f.remove(csinodesPath, csinode("n1", "a", 6)) // 104
			f.put(csinodesPath, csinode("n2", "b", 7))    // 105
			f.with(func() { f.compacted, f.refuse = f.rev, 0 })
			if c.gap == "" {
				g.Eventually(func() []string { return brief(t, dir, "api/csinodes") }, patience).Should(Equal([]string{
					"ADDED n1@101", "MODIFIED n1@102", "MODIFIED n1@103", "DELETED n1@104", "ADDED n2@105",
				}))
				return
			}
			g.Eventually(func() []string { return brief(t, dir, "api/csinodes") }, patience).Should(ContainElement("gap"))
			var reason history.GapReason
			g.Expect(readSource(t, dir, "api/csinodes")[1].Decode(&reason)).To(Succeed())
			g.Expect(reason.Reason).To(ContainSubstring(c.gap))
		})
	}
}
