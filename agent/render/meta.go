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

// Labels and annotations of children in the member.
const (
	// LabelHomeMode is the HomeMode of a claim. Only a PerSession claim is deleted with its
	// session.
	LabelHomeMode = "vdi.kasm.io/home-mode"
	// LabelHome on a Pod is the claim of the user's home that it mounts.
	LabelHome = "vdi.kasm.io/home"
	// LabelNetworkPolicy on a Pod selects its NetworkPolicy. The value is a hash of the
	// policy's rules.
	LabelNetworkPolicy = "vdi.kasm.io/network-policy"
	// AnnotationUser is the user of a claim or a Pod.
	AnnotationUser = "vdi.kasm.io/user"
	// AnnotationDesktopHash is the DesktopHash of a Pod.
	AnnotationDesktopHash = "vdi.kasm.io/desktop-hash"
)

// assignmentKind is the kind in the children's owner references.
var assignmentKind = api.GroupVersion.WithKind("SessionAssignment")

// DesktopHash returns a short hash of the part of an assignment that defines its Pod. It does
// not depend on the rendering, so that an upgrade of the agent restarts no desktop, nor on
// fields that change without a restart.
func DesktopHash(a *api.SessionAssignment) string {
	return shortHash(podFields(a.Spec.Desktop))
}

func shortHash(plain any) string {
	text, err := json.Marshal(plain)
	if err != nil {
		// Plain data can always be encoded.
		panic(fmt.Sprintf("encoding %T: %v", plain, err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// podFields omits the fields of a desktop that do not affect its Pod. Of the files it keeps
// only whether there are any, which mounts their directory.
func podFields(d api.Desktop) api.Desktop {
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

// Selector returns the labels of an assignment's Pods, Services, Ingresses and PerSession
// claim.
func Selector(a *api.SessionAssignment) map[string]string {
	return map[string]string{
		api.LabelManagedBy:  api.ManagedBy,
		api.LabelAssignment: a.Name,
		api.LabelSessionUID: string(a.Spec.Session.UID),
	}
}

// AssignmentIndex is the cache's index of Pods and Secrets by the assignment that they are labeled
// with.
const AssignmentIndex = "assignment"

// AssignmentOf returns the values of AssignmentIndex.
func AssignmentOf(o metav1.Object) []string {
	if name := o.GetLabels()[api.LabelAssignment]; name != "" {
		return []string{name}
	}
	return nil
}

// Owner returns the controller reference of an assignment's children.
func Owner(a *api.SessionAssignment) metav1.OwnerReference {
	return *metav1.NewControllerRef(a, assignmentKind)
}

// ownedMeta returns the metadata of a child that is owned by its assignment.
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

// sharedMeta returns the metadata of an object that all desktops of a namespace may use.
func sharedMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: "vdi-" + name, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy}}
}
