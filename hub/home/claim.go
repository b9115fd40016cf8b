package home

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Claim is a session's claim to its PerUser home, for the run in which its status is
// about to place it.
type Claim struct {
	Session  *v1alpha1.VDISession
	Template *v1alpha1.TemplateSpec
	// Record of the home as it was read; nil: none yet.
	Record *v1alpha1.VDIHome
	// Fresh requires a new claim. Movable allows one in another member.
	Fresh, Movable bool
	// Refused is set if the member of the record refused the session: a movable home
	// was never created there.
	Refused bool
	Now     metav1.Time
}

// Apply returns the record for the run, and the home that it leaves behind, if any.
func (c Claim) Apply() (h *v1alpha1.VDIHome, left *v1alpha1.LeftBehindHome) {
	s, at := c.Session, c.Session.Status.Placement
	if c.Record == nil {
		h = &v1alpha1.VDIHome{}
		h.Namespace, h.Name = s.Namespace, Key(s).Name
		h.Spec = v1alpha1.HomeSpec{User: s.Spec.User, Template: s.Spec.Template, Generation: 1, ClaimName: h.Name}
		h.Spec.ClusterName, h.Spec.ClusterUID, h.Spec.Size = at.ClusterName, at.ClusterUID, c.Template.Home.Size
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, AnnotationUnused, "true")
	} else {
		h = c.Record.DeepCopy()
		if c.Fresh || c.Movable && h.Spec.ClusterUID != at.ClusterUID {
			left = c.replace(h)
		}
		if size := c.Template.Home.Size; h.Spec.Size == nil || size != nil && size.Cmp(*h.Spec.Size) > 0 {
			h.Spec.Size = size
		}
	}
	h.Spec.RetentionTime = c.Template.Home.RetentionTime
	controllerutil.AddFinalizer(h, v1alpha1.HomeFinalizer)
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.AnnotationRun, status.RunOf(at).String())
	h.Status.MountedBy, h.Status.MountedByUID = s.Name, s.UID
	return h, left
}

// replace gives the home a new claim where the session is placed, and records the one that
// is left behind, if it was ever created.
func (c Claim) replace(h *v1alpha1.VDIHome) *v1alpha1.LeftBehindHome {
	at := c.Session.Status.Placement
	left := &v1alpha1.LeftBehindHome{
		ClaimName: h.Spec.ClaimName, ClusterName: h.Spec.ClusterName, ClusterUID: h.Spec.ClusterUID, Time: c.Now,
	}
	if !c.Refused || !c.Movable {
		h.Status.LeftBehind = append(h.Status.LeftBehind, *left)
		h.Status.LeftBehind = h.Status.LeftBehind[max(0, len(h.Status.LeftBehind)-maxLeftBehind):]
	}
	h.Spec.Generation++
	h.Spec.ClaimName = v1alpha1.HomeClaimName(h.Namespace, h.Spec.User, h.Spec.Template, h.Spec.Generation)
	h.Spec.ClusterName, h.Spec.ClusterUID = at.ClusterName, at.ClusterUID
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, AnnotationUnused, "true")
	return left
}
