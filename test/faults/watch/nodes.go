package watch

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

// nodeClaim is the kind of the nodes that Karpenter adds, from their request on.
var nodeClaim = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}

// nodeClaims returns the kind for a watch of metadata, which is all that the checker needs.
func nodeClaims() client.Object {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(nodeClaim)
	return o
}

// nodeChanged returns a function that passes a change of a member's NodeClaim to the checker.
func (w *Watcher) nodeChanged(member string) func(client.Object, bool) {
	return func(o client.Object, gone bool) {
		f := checker.NodeState{Cluster: member, UID: o.GetUID(), Name: o.GetName(), Deleting: o.GetDeletionTimestamp() != nil}
		w.With(func(c *checker.Checker, now time.Time) {
			if gone {
				c.NodeDeleted(f)
			} else {
				c.ObserveNode(now, f)
			}
		})
	}
}
