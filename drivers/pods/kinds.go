package pods

import "k8s.io/apimachinery/pkg/runtime/schema"

// resource is what the API server calls the objects of a kind.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
	// own is why no object of the kind is applied: Headroom has its own.
	own string
}

const (
	rbac = "rbac.authorization.k8s.io"
	csi  = "storage.k8s.io"
)

// kinds are those of objects that manifests may have.
var kinds = map[string]resource{
	"ServiceAccount":        {gvr("", "serviceaccounts"), true, ""},
	"ConfigMap":             {gvr("", "configmaps"), true, ""},
	"Secret":                {gvr("", "secrets"), true, ""},
	"Service":               {gvr("", "services"), true, ""},
	"PersistentVolumeClaim": {gvr("", "persistentvolumeclaims"), true, ""},
	"Role":                  {gvr(rbac, "roles"), true, ""},
	"RoleBinding":           {gvr(rbac, "rolebindings"), true, ""},
	"ClusterRole":           {gvr(rbac, "clusterroles"), false, ""},
	"ClusterRoleBinding":    {gvr(rbac, "clusterrolebindings"), false, ""},
	"Deployment":            {gvr("apps", "deployments"), true, ""},
	"DaemonSet":             {gvr("apps", "daemonsets"), true, ""},
	"StatefulSet":           {gvr("apps", "statefulsets"), true, ""},
	"PodDisruptionBudget":   {gvr("policy", "poddisruptionbudgets"), true, ""},
	"NetworkPolicy":         {gvr("networking.k8s.io", "networkpolicies"), true, ""},
	"PriorityClass":         {gvr("scheduling.k8s.io", "priorityclasses"), false, ""},
	"Namespace":             {gvr("", "namespaces"), false, "each driver of a run has a namespace of its own"},
	"CSIDriver":             {gvr(csi, "csidrivers"), false, "specs make it, with the period that they need"},
	"StorageClass":          {gvr(csi, "storageclasses"), false, "specs make their volumes by what the definition says of volumes"},
}

func gvr(group, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

// Resource is what the API server calls the object's kind, and whether its objects are in namespaces.
func (o Object) Resource() (r schema.GroupVersionResource, namespaced bool) {
	k := kinds[o.GetKind()]
	return k.GroupVersionResource, k.namespaced
}

// ClusterScoped are the kinds of objects that Render may give outside a namespace.
func ClusterScoped() (all []schema.GroupVersionResource) {
	for _, name := range []string{"ClusterRoleBinding", "ClusterRole", "PriorityClass"} {
		all = append(all, kinds[name].GroupVersionResource)
	}
	return all
}

// workloads are the kinds that have a template of pods.
var workloads = map[string]bool{"Deployment": true, "DaemonSet": true, "StatefulSet": true}
