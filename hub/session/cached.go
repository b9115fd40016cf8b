package session

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// sessionAnnotations are those that the hub reads from a session.
var sessionAnnotations = []string{v1alpha1.AnnotationForceCleanup, v1alpha1.AnnotationMove, trim.AnnotationOmitted}

// Cached configures the hub's cache of objects that users write: it keeps no more of
// each than the hub needs, whatever they contain. own is the hub's namespace, served
// are the namespaces of the sessions that it serves, or all if that is empty.
func Cached(own string, served []string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.VDISession{}:      {Transform: trim.Transform(trimSession)},
		&v1alpha1.PlacementReview{}: {Transform: trim.Transform(trimReview)},
		&corev1.Secret{}:            secret.Cached(own, served),
	}
}

// trimSession removes what the hub does not read. The hub renders env and files of placed
// sessions only, and reads a session again when it is placed: of others it keeps the
// names, which acceptance needs.
func trimSession(s *v1alpha1.VDISession) {
	keepAnnotations(s)
	trimSpec(s, &s.Spec, &s.Labels)
	if s.Status.Placement == nil {
		trimPayload(&s.Spec)
	}
	share(s)
}

// share has the cached sessions share what most of them have in common, and decoded conditions
// take no more memory than they need.
func share(s *v1alpha1.VDISession) {
	own := []*string{&s.Spec.User, &s.Status.URL, &s.Status.AccessSecretName}
	if s.Status.Endpoint != nil {
		own = append(own, &s.Status.Endpoint.URL)
	}
	s.Spec.Resources, s.Status.Resources = trim.Resources(s.Spec.Resources), trim.Resources(s.Status.Resources)
	s.Status.Conditions = append(make([]metav1.Condition, 0, len(s.Status.Conditions)), s.Status.Conditions...)
	for i := range s.Status.Conditions {
		c := &s.Status.Conditions[i]
		trim.Strings(&c.Type, &c.Reason, (*string)(&c.Status))
		if c.Type == v1alpha1.ConditionScheduled { // which has a text of its own for each session
			own = append(own, &c.Message)
		} else {
			trim.Strings(&c.Message)
		}
	}
	trim.Metadata(s, own...)
	trim.Strings(&s.Spec.Template, (*string)(&s.Spec.OperatingMode), &s.Status.TemplateRevision, (*string)(&s.Status.Phase))
	if at := s.Status.Placement; at != nil {
		trim.Strings(&at.ClusterName, (*string)(&at.ClusterUID), &at.Policy, &at.Region, (*string)(&at.FailoverMode))
	}
}

// trimReview removes the payload of env and files, which placement does not use.
func trimReview(review *v1alpha1.PlacementReview) {
	keepAnnotations(review)
	review.Labels = nil
	spec := review.Spec.Session
	if spec == nil {
		spec = &v1alpha1.SessionSpec{}
	}
	trimSpec(review, spec, &review.Spec.Labels)
	trimPayload(spec)
}

// trimPayload removes the values of env and the contents of files.
func trimPayload(spec *v1alpha1.SessionSpec) {
	for i := range spec.Env {
		spec.Env[i] = v1alpha1.EnvVar{Name: spec.Env[i].Name}
	}
	for i := range spec.Files {
		spec.Files[i] = v1alpha1.ConfigFile{Name: spec.Files[i].Name}
	}
}

// keepAnnotations removes the annotations that the hub does not read, such as the one
// in which kubectl stores the object a second time. A merge patch can remove the others
// one at a time, since one always remains.
func keepAnnotations(o client.Object) {
	kept := map[string]string{trim.AnnotationOmitted: "0"}
	for _, name := range sessionAnnotations {
		if value, has := o.GetAnnotations()[name]; has {
			kept[name] = truncate(value)
		}
	}
	if len(o.GetAnnotations()) > 0 {
		o.SetAnnotations(kept)
	}
}

// trimSpec removes what is too large, so that the session is not accepted. Of the
// finalizers it keeps the hub's own: a patch that removes it removes the others as well.
func trimSpec(o client.Object, spec *v1alpha1.SessionSpec, of *map[string]string) {
	text, err := json.Marshal([]any{o.GetOwnerReferences(), o.GetFinalizers(), *of, spec.Groups, spec.Placement, spec.Resources})
	if err == nil && len(text) <= trim.MaxSize {
		return
	}
	o.SetOwnerReferences(nil)
	if controllerutil.ContainsFinalizer(o, v1alpha1.Finalizer) {
		o.SetFinalizers([]string{v1alpha1.Finalizer})
	} else {
		o.SetFinalizers(nil)
	}
	*of, spec.Groups, spec.Placement, spec.Resources = nil, nil, v1alpha1.SessionPlacement{}, nil
	trim.Omit(o, len(text))
}
