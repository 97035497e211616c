package observe

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"headroom/e2e/framework/history"
)

// scopeTimeout bounds the look-up of one namespace, which delays the recording of the object that asked (not its At).
const scopeTimeout = 2 * time.Second

// scopes knows the scope of every namespace. A watch of namespaces fills it; what that watch has not brought yet is looked up, because a pod may
// be seen before its namespace. A deleted namespace stays known: its last objects go after it.
type scopes struct {
	get func(context.Context, string) (*corev1.Namespace, error)

	mu sync.Mutex
	by map[string]string
}

func newScopes(c kubernetes.Interface) *scopes {
	return &scopes{by: map[string]string{}, get: func(ctx context.Context, name string) (*corev1.Namespace, error) {
		return c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}}
}

// resource is the watch of namespaces; it writes no events.
func (s *scopes) resource(c kubernetes.Interface) resource {
	return kind("namespaces", c.CoreV1().Namespaces(), func(ns *corev1.Namespace, o history.Object) (string, any) {
		s.learn(ns)
		return "", o
	})
}

func (s *scopes) learn(ns *corev1.Namespace) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[ns.Name] = ownScope(ns)
	return s.by[ns.Name]
}

// of returns the scope of obj: its own label, its own annotation, or what its namespace says; "" where none does or the namespace cannot be read.
func (s *scopes) of(ctx context.Context, obj metav1.Object) string {
	name := obj.GetNamespace()
	if own := ownScope(obj); own != "" || name == "" {
		return own
	}
	s.mu.Lock()
	scope, known := s.by[name]
	s.mu.Unlock()
	if known {
		return scope
	}
	ctx, cancel := context.WithTimeout(ctx, scopeTimeout)
	defer cancel()
	ns, err := s.get(ctx, name)
	switch {
	case err == nil:
		return s.learn(ns)
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err): // asking again will not help
		return s.learn(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return ""
}

func ownScope(obj metav1.Object) string {
	if s := obj.GetLabels()[ScopeKey]; s != "" {
		return s
	}
	return obj.GetAnnotations()[ScopeKey]
}
