package cluster

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// ApplyResult applies the result of an order and returns whether it counts. A result for an
// item that the cache does not have counts only if the hub placed the session in the
// member, or has ordered it to stop, and creates no other item.
func (p *Cache) ApplyResult(r *protocol.Result) bool {
	after := map[protocol.Code]func(*v1alpha1.SessionAssignment, *protocol.Result) *v1alpha1.SessionAssignment{
		protocol.Stored: afterStored, protocol.Stopped: afterStopped, protocol.Refused: afterRefused,
	}[r.Code]
	if after == nil {
		return true
	}
	p.mu.Lock()
	defer p.unlock()
	key, session := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, r.SessionUID
	old := p.store.get(key)
	if old != nil && old.Spec.Session.UID == session {
		p.replace(key, old, after(old, r))
		return true
	}
	name, named := p.quota.names[session]
	if named && name != key || !named && p.quota.placed != nil && !p.quota.placed(session) {
		return false
	}
	p.replace(key, old, after(old, r))
	if next := p.store.items[key]; next != nil && next.session.UID == session {
		p.quota.forgetOrphan(key)
		p.quota.names[session] = key
	}
	return true
}

// afterStored returns the cache's item once the member's API server has stored the
// assignment (or, without a hash, the withdrawal).
func afterStored(old *v1alpha1.SessionAssignment, r *protocol.Result) *v1alpha1.SessionAssignment {
	withdrawal := r.SpecHash == ""
	switch {
	case old == nil && withdrawal:
		return nil
	case old == nil, old.Spec.Epoch < r.Epoch && !withdrawal:
		item := itemOf(r)
		item.Status.State = v1alpha1.AssignmentActive
		return item
	case old.Spec.Epoch > r.Epoch, awaitsRecording(old):
		return old
	}
	item := old.DeepCopy()
	if withdrawal {
		item.Status.State = v1alpha1.AssignmentStopping
		return item
	}
	item.Annotations = maps.Clone(item.Annotations)
	metav1.SetMetaDataAnnotation(&item.ObjectMeta, v1alpha1.AnnotationSpecHash, r.SpecHash)
	item.Status.Reason, item.Status.Message = "", ""
	if old.Annotations[v1alpha1.AnnotationSpecHash] != r.SpecHash {
		// The known status is that of an earlier spec.
		item.Status.ObservedGeneration = 0
	}
	return item
}

// afterStopped returns the item once nothing up to an epoch runs any more.
func afterStopped(old *v1alpha1.SessionAssignment, r *protocol.Result) *v1alpha1.SessionAssignment {
	if old != nil && old.Spec.Epoch > r.Epoch {
		return old
	}
	item := itemOf(r)
	item.Status.State = v1alpha1.AssignmentStopped
	if old != nil && old.Spec.Session.UID == r.SessionUID {
		// The desktop's running time, as the agent reported it, outlives the desktop.
		item.Status.TimeUsed, item.Status.RunningSince = old.Status.TimeUsed, old.Status.RunningSince
	}
	if old != nil && old.Spec.Epoch == r.Epoch && old.Spec.Session.UID == r.SessionUID {
		// A hub that lost the epoch still continues from its number.
		item.Spec.Proof = old.Spec.Proof
	}
	return item
}

// afterRefused returns the item when nothing of an epoch was stored. An earlier epoch of
// the session in the member continues: it only gets the reason of the refusal.
func afterRefused(old *v1alpha1.SessionAssignment, r *protocol.Result) *v1alpha1.SessionAssignment {
	switch {
	case old != nil && awaitsRecording(old) && old.Spec.Epoch >= r.Epoch:
		return old
	case old != nil && !awaitsRecording(old):
		item := old.DeepCopy()
		item.Status.Reason, item.Status.Message = r.Reason, r.Message
		return item
	}
	item := itemOf(r)
	item.Status.State = v1alpha1.AssignmentRefused
	item.Status.Reason, item.Status.Message = r.Reason, r.Message
	return item
}

func itemOf(r *protocol.Result) *v1alpha1.SessionAssignment {
	item := &v1alpha1.SessionAssignment{}
	item.Namespace, item.Name = r.Namespace, r.Name
	if r.SpecHash != "" {
		item.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: r.SpecHash}
	}
	item.Spec.Session.UID = r.SessionUID
	item.Spec.Epoch = r.Epoch
	return item
}
