package render

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Marks of the children that only a member knows.
const (
	// LabelHomeMode is the HomeMode that a claim was made for. Only a claim
	// that says PerSession is ever deleted with its session.
	LabelHomeMode = "vdi.kasm.io/home-mode"
	// AnnotationUser is whose home a claim is, and whose desktop a Pod.
	AnnotationUser = "vdi.kasm.io/user"
	// AnnotationDesktopHash is the DesktopHash that a Pod was made from.
	AnnotationDesktopHash = "vdi.kasm.io/desktop-hash"
)

// assignmentKind is what the children's owner references name.
var assignmentKind = api.GroupVersion.WithKind("SessionAssignment")

// DesktopHash is a short hash of the desktop that an assignment asks for. Two
// assignments with equal hashes ask for the same Pod. It does not depend on
// how this version of the agent renders, so that an upgrade of the agent
// restarts no desktop. What reaches a desktop that runs does not count either:
// the content of its files, whom it may talk to, how it is reached and how long
// its home is kept.
func DesktopHash(a *api.SessionAssignment) string {
	d := a.Spec.Desktop.DeepCopy()
	for i := range d.Files {
		d.Files[i] = api.ConfigFile{}
	}
	d.Files = d.Files[:min(len(d.Files), 1)] // that there are any is a mount
	d.NetworkPolicy, d.IngressClassName, d.TLSSecretName = api.TemplateNetworkPolicy{}, "", ""
	d.Activity, d.Path = api.Activity{}, ""
	d.Home.Size, d.Home.Retention, d.Home.RetentionTime = nil, "", ""
	return hashOf(d)
}

// Selector is the labels by which the Pods, Services and Ingresses of an
// assignment are found, and the claim of its PerSession home.
func Selector(a *api.SessionAssignment) map[string]string {
	return map[string]string{
		api.LabelManagedBy:  api.ManagedBy,
		api.LabelAssignment: a.Name,
		api.LabelSessionUID: string(a.Spec.Session.UID),
	}
}

// Owner is the controller reference of what an assignment owns.
func Owner(a *api.SessionAssignment) metav1.OwnerReference {
	return *metav1.NewControllerRef(a, assignmentKind)
}

// ownedMeta is the metadata of a child that goes with its assignment.
func ownedMeta(a *api.SessionAssignment) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: a.Namespace,
		Name:      a.Name,
		Labels:    Selector(a),
		Annotations: map[string]string{
			api.AnnotationSession: a.Spec.Session.Namespace + "/" + a.Spec.Session.Name,
			api.AnnotationEpoch:   strconv.FormatInt(a.Spec.Epoch, 10),
		},
		OwnerReferences: []metav1.OwnerReference{Owner(a)},
	}
}
