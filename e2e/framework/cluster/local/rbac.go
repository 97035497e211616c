package local

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/versions"
)

// Groups of the sidecars of a cell; the role of each is what the sidecar's own deployment asks for.
const (
	attacherGroup    = "headroom:csi-attachers"
	provisionerGroup = "headroom:csi-provisioners"
)

// attacherRules are for every external-attacher.
var attacherRules = []rbacv1.PolicyRule{
	{APIGroups: []string{corev1.GroupName}, Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "list", "watch", "patch"}},
	{APIGroups: []string{storagev1.GroupName}, Resources: []string{"csinodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{storagev1.GroupName}, Resources: []string{"volumeattachments"}, Verbs: []string{"get", "list", "watch", "patch"}},
	{APIGroups: []string{storagev1.GroupName}, Resources: []string{"volumeattachments/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
}

// provisionerRules are for every external-provisioner. Secrets are for StorageClasses whose parameters name some.
var provisionerRules = []rbacv1.PolicyRule{
	{APIGroups: []string{corev1.GroupName}, Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
	{APIGroups: []string{corev1.GroupName}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"get", "list", "watch", "update"}},
	{APIGroups: []string{storagev1.GroupName}, Resources: []string{"storageclasses", "csinodes", "volumeattachments"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{corev1.GroupName}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{corev1.GroupName}, Resources: []string{"events"}, Verbs: []string{"list", "watch", "create", "update", "patch"}},
	{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, Verbs: []string{"get", "list"}},
}

// bootstrapRBAC gives the sidecars their rights.
func (c *cell) bootstrapRBAC(ctx context.Context) error {
	if err := c.grant(ctx, attacherGroup, attacherRules); err != nil {
		return err
	}
	if c.cfg.Versions[versions.ProvisionerComponent] == "" {
		return nil
	}
	return c.grant(ctx, provisionerGroup, provisionerRules)
}

// grant makes a role for a group, of the same name.
func (c *cell) grant(ctx context.Context, group string, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: group}, Rules: rules}
	if _, err := c.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the role of %s: %w", group, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: group},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind the role of %s: %w", group, err)
	}
	return nil
}
