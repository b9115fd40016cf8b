package cluster

import (
	"strconv"

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
	status  v1alpha1.SessionAssignmentStatus
}

func pack(item *v1alpha1.SessionAssignment, version uint64) *packed {
	return &packed{
		session: item.Spec.Session, epoch: item.Spec.Epoch, proof: item.Spec.Proof,
		hash: item.Annotations[v1alpha1.AnnotationSpecHash], version: version, status: item.Status,
	}
}

// unpack returns the item, which shares its status with the store.
func (p *packed) unpack(key types.NamespacedName) *v1alpha1.SessionAssignment {
	item := &v1alpha1.SessionAssignment{Status: p.status}
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
	trim.Strings(&key.Namespace)
	s.items[key] = pack(item, s.version)
	s.changes = append(s.changes, change{before, item})
}

// share has the items of all members share the texts that most of them have in common.
func share(item *v1alpha1.SessionAssignment) {
	trim.Strings(&item.Namespace, &item.Spec.Session.Namespace, (*string)(&item.Status.State), &item.Status.Reason, &item.Status.NodeName)
	for i := range item.Status.Conditions {
		c := &item.Status.Conditions[i]
		trim.Strings(&c.Type, &c.Reason, (*string)(&c.Status), &c.Message)
	}
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
