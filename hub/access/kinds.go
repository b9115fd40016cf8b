package access

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func kindOf(o client.Object) string {
	if _, ok := o.(*rbacv1.RoleBinding); ok {
		return "RoleBinding"
	}
	return "Role"
}

func emptyOf(o client.Object) client.Object {
	if _, ok := o.(*rbacv1.RoleBinding); ok {
		return &rbacv1.RoleBinding{}
	}
	return &rbacv1.Role{}
}

func listOf(o client.Object) client.ObjectList {
	if _, ok := o.(*rbacv1.RoleBinding); ok {
		return &rbacv1.RoleBindingList{}
	}
	return &rbacv1.RoleList{}
}
