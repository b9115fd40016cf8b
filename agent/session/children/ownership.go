package children

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// otherOwner returns the owner of an object that the assignment does not own, as the end of
// "There is already a Pod web, ...". The assignment owns an object without a controller that
// has all labels of its children: the owner reference is restored.
func otherOwner[T client.Object](a *api.SessionAssignment, o T) string {
	owner := metav1.GetControllerOf(o)
	switch {
	case owner == nil && Labeled(o, render.Selector(a)):
		return ""
	case owner == nil:
		return "which does not belong to this session: delete or rename it"
	case owner.UID == a.UID:
		return ""
	case owner.Kind == "SessionAssignment" && owner.Name == a.Name:
		return "of an earlier assignment of this session: it is removed with that"
	default:
		return belongsTo(owner)
	}
}

func belongsTo(owner *metav1.OwnerReference) string {
	return fmt.Sprintf("which belongs to %s %s: delete or rename it", owner.Kind, owner.Name)
}

// otherOwnerOfShared is otherOwner for objects that all assignments of a namespace may use: they
// have the agent's label, and no controller.
func otherOwnerOfShared[T client.Object](_ *api.SessionAssignment, o T) string {
	switch owner := metav1.GetControllerOf(o); {
	case owner != nil:
		return belongsTo(owner)
	case o.GetLabels()[api.LabelManagedBy] != api.ManagedBy:
		return "which is not the agent's: delete or rename it"
	default:
		return ""
	}
}

// otherOwnerOfHome is otherOwner for claims, which have no owner reference: a session's claim
// has the session's UID, and a user's claim the user's name.
func otherOwnerOfHome(a *api.SessionAssignment, claim *corev1.PersistentVolumeClaim) string {
	want := render.Home(a)
	switch {
	case !Labeled(claim, want.Labels):
		return fmt.Sprintf("which is not this session's home: delete it, or give it the labels %v and the annotation %s=%s",
			metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: want.Labels}), render.AnnotationUser, a.Spec.User)
	case claim.Annotations[render.AnnotationUser] != a.Spec.User:
		return "which is the home of another user"
	default:
		return ""
	}
}

// Labeled reports whether an object has all of these labels.
func Labeled(o client.Object, want map[string]string) bool {
	return labels.SelectorFromValidatedSet(want).Matches(labels.Set(o.GetLabels()))
}
