package session

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// strangerTo says whose a Pod, Service or Ingress is, as the end of "There is
// one already, ...", or "" if it is the assignment's. One without a controller
// that carries all our marks is: somebody removed the owner reference, which
// is put back.
func strangerTo[T client.Object](a *api.SessionAssignment, o T) string {
	owner := metav1.GetControllerOf(o)
	switch {
	case owner == nil && marked(o, render.Selector(a)):
		return ""
	case owner == nil:
		return "which does not belong to this session: delete or rename it"
	case owner.UID == a.UID:
		return ""
	case owner.Kind == "SessionAssignment" && owner.Name == a.Name:
		return "of an earlier assignment of this session: it is removed with that"
	default:
		return fmt.Sprintf("which belongs to %s %s: delete or rename it", owner.Kind, owner.Name)
	}
}

// strangerHome says whose a claim is. A session's own claim carries the
// session's UID, a user's the user's name: neither has an owner.
func strangerHome(a *api.SessionAssignment, claim *corev1.PersistentVolumeClaim) string {
	want := render.Home(a)
	switch {
	case !marked(claim, want.Labels):
		return fmt.Sprintf("which is not this session's home: delete it, or give it the labels %v and the annotation %s=%s",
			metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: want.Labels}), render.AnnotationUser, a.Spec.User)
	case claim.Annotations[render.AnnotationUser] != a.Spec.User:
		return "which is the home of another user"
	default:
		return ""
	}
}

func marked(o client.Object, want map[string]string) bool {
	labels := o.GetLabels()
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}
