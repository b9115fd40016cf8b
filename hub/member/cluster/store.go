package cluster

import (
	"strconv"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// store has a cache's items.
type store struct {
	version uint64
	items   map[types.NamespacedName]*packed
	// assigned is the digest of the items that the member has.
	assigned uint64
	// changes are those of which the handlers are not notified yet.
	changes []change
}

// packed is an item without the fields that no report has: a SessionAssignment takes 1.4 KiB, of
// which most is for the desktop that it describes.
type packed struct {
	session v1alpha1.SessionReference
	epoch   int64
	proof   string
	// hash is the value of AnnotationSpecHash, the only annotation.
	hash    string
	version uint64
	// status has no conditions.
	status     v1alpha1.SessionAssignmentStatus
	conditions []condition
}

// condition is a condition of a status in a quarter of its memory.
type condition struct {
	texts      unique.Handle[conditionTexts]
	generation int64
	// since is the time of the last transition, in seconds as reports have it.
	since int64
}

// conditionTexts is what a condition has in common with those of most items.
type conditionTexts struct {
	kind, reason, message string
	status                metav1.ConditionStatus
}

func pack(item *v1alpha1.SessionAssignment, version uint64) *packed {
	p := &packed{
		session: item.Spec.Session, epoch: item.Spec.Epoch, proof: item.Spec.Proof,
		hash: item.Annotations[v1alpha1.AnnotationSpecHash], version: version, status: item.Status,
	}
	p.status.Conditions = nil
	if n := len(item.Status.Conditions); n > 0 {
		p.conditions = make([]condition, n)
	}
	for i, c := range item.Status.Conditions {
		texts := conditionTexts{kind: c.Type, reason: c.Reason, message: c.Message, status: c.Status}
		p.conditions[i] = condition{unique.Make(texts), c.ObservedGeneration, c.LastTransitionTime.Unix()}
	}
	return p
}

// unpack returns the condition.
func (c condition) unpack() metav1.Condition {
	texts := c.texts.Value()
	out := metav1.Condition{
		Type: texts.kind, Status: texts.status, Reason: texts.reason, Message: texts.message, ObservedGeneration: c.generation,
	}
	if since := metav1.Unix(c.since, 0); !since.IsZero() {
		out.LastTransitionTime = since
	}
	return out
}

// unpack returns a copy of the item.
func (p *packed) unpack(key types.NamespacedName) *v1alpha1.SessionAssignment {
	item := &v1alpha1.SessionAssignment{}
	p.status.DeepCopyInto(&item.Status)
	if n := len(p.conditions); n > 0 {
		item.Status.Conditions = make([]metav1.Condition, n)
	}
	for i, c := range p.conditions {
		item.Status.Conditions[i] = c.unpack()
	}
	item.Namespace, item.Name, item.ResourceVersion = key.Namespace, key.Name, strconv.FormatUint(p.version, 10)
	item.Spec.Session, item.Spec.Epoch, item.Spec.Proof = p.session, p.epoch, p.proof
	if p.hash != "" {
		item.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: p.hash}
	}
	return item
}

// get returns an item, or nil.
func (s *store) get(key types.NamespacedName) *v1alpha1.SessionAssignment {
	if p := s.items[key]; p != nil {
		return p.unpack(key)
	}
	return nil
}

// all returns all items.
func (s *store) all() []*v1alpha1.SessionAssignment {
	out := make([]*v1alpha1.SessionAssignment, 0, len(s.items))
	for key, p := range s.items {
		out = append(out, p.unpack(key))
	}
	return out
}

// set stores an item in the place of before, which may be nil.
func (s *store) set(key types.NamespacedName, before, item *v1alpha1.SessionAssignment) {
	share(item)
	s.assigned += assignedHash(item) - assignedHash(before)
	s.version++
	item.ResourceVersion = strconv.FormatUint(s.version, 10)
	p := pack(item, s.version)
	trim.Strings(&key.Namespace)
	trim.Pack(&key.Name, &p.session.Name, (*string)(&p.session.UID), &p.proof, &p.hash)
	s.items[key] = p
	s.changes = append(s.changes, change{before, item})
}

// share has the items of all members share the texts that most of them have in common.
func share(item *v1alpha1.SessionAssignment) {
	trim.Strings(&item.Namespace, &item.Spec.Session.Namespace, (*string)(&item.Status.State), &item.Status.Reason, &item.Status.NodeName)
}

// drop removes an item, which may be nil.
func (s *store) drop(key types.NamespacedName, before *v1alpha1.SessionAssignment) {
	if before == nil {
		return
	}
	s.assigned -= assignedHash(before)
	delete(s.items, key)
	s.changes = append(s.changes, change{before: before})
}
