package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Marks of the children that only a member knows.
const (
	// LabelHomeMode is the HomeMode that a claim was made for. Only a claim
	// that says PerSession is ever deleted with its session.
	LabelHomeMode = "vdi.kasm.io/home-mode"
	// LabelHome on a Pod is the claim of the user's home that it mounts.
	LabelHome = "vdi.kasm.io/home"
	// AnnotationUser is whose home a claim is, and whose desktop a Pod.
	AnnotationUser = "vdi.kasm.io/user"
	// AnnotationDesktopHash is the DesktopHash that a Pod was made from.
	AnnotationDesktopHash = "vdi.kasm.io/desktop-hash"
)

// assignmentKind is what the children's owner references name.
var assignmentKind = api.GroupVersion.WithKind("SessionAssignment")

// DesktopHash returns a short hash of the part of an assignment that defines its Pod. Two
// assignments with equal hashes ask for the same Pod. It does not depend on how
// this version of the agent renders, so that an upgrade of the agent restarts no
// desktop, nor on what can change under a desktop that runs, or beside it.
func DesktopHash(a *api.SessionAssignment) string {
	text, err := json.Marshal(ofThePod(a.Spec.Desktop))
	if err != nil {
		// Plain data without maps of interfaces, channels or functions: it
		// can't fail, and a hash that hides a failure would hide a change.
		panic(fmt.Sprintf("encoding a desktop: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// ofThePod omits from a desktop what does not concern its Pod. Of the files it
// keeps only that there are any: then their directory is mounted.
func ofThePod(d api.Desktop) api.Desktop {
	if len(d.Files) > 0 {
		d.Files = []api.ConfigFile{{}}
	} else {
		d.ConfigMountPath = ""
	}
	d.Home = api.AssignedHome{Mode: d.Home.Mode, ClaimName: d.Home.ClaimName, MountPath: d.Home.MountPath}
	d.Protocol, d.Path, d.IngressClassName, d.TLSSecretName = "", "", "", ""
	d.Activity, d.NetworkPolicy = api.Activity{}, api.TemplateNetworkPolicy{}
	return d
}

// Selector returns the labels by which the Pods, Services and Ingresses of an
// assignment are found, and the claim of its PerSession home.
func Selector(a *api.SessionAssignment) map[string]string {
	return map[string]string{
		api.LabelManagedBy:  api.ManagedBy,
		api.LabelAssignment: a.Name,
		api.LabelSessionUID: string(a.Spec.Session.UID),
	}
}

// Owner returns the controller reference of what an assignment owns.
func Owner(a *api.SessionAssignment) metav1.OwnerReference {
	return *metav1.NewControllerRef(a, assignmentKind)
}

// ownedMeta returns the metadata of a child that goes with its assignment.
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
