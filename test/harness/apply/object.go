package apply

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// RBACGroup is the API group of roles and bindings.
const RBACGroup = "rbac.authorization.k8s.io"

// Object returns an object without a spec.
func Object(apiVersion, kind, namespace, name string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

// ConditionStatus returns the status of a condition of an object, "" if the object has
// no such condition.
func ConditionStatus(o *unstructured.Unstructured, conditionType string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == conditionType {
			status, _ := condition["status"].(string)
			return status
		}
	}
	return ""
}

// Binding returns the RoleBinding or ClusterRoleBinding, by the kind of the role, that
// grants the role to a user.
func Binding(kind, namespace, role, user string) *unstructured.Unstructured {
	b := Object(RBACGroup+"/v1", kind+"Binding", namespace, "harness-"+user+"-"+role, nil)
	b.Object["roleRef"] = map[string]any{"apiGroup": RBACGroup, "kind": kind, "name": role}
	b.Object["subjects"] = []any{map[string]any{"apiGroup": RBACGroup, "kind": "User", "name": user}}
	return b
}
