package elastic

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// claimRecord records the NodeClaims of a NodePool. It is a single watch, without a cache, so that it has
// every NodeClaim, however short its life.
type claimRecord struct {
	mu sync.Mutex
	// exist are the names of the present NodeClaims, including those that are being deleted.
	exist map[string]bool
	// most is the largest number of NodeClaims that existed at the same time; created counts all of them.
	most, created int
	// ended is set if the watch ended before the spec did: the record has gaps then.
	ended bool
}

// recordClaims records the NodeClaims of a member's NodePool until the end of the spec.
func recordClaims(ctx context.Context, member, nodePool string) *claimRecord {
	GinkgoHelper()
	claims := fleet.Member(member).ControlPlane.Applier.Dynamic.Resource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"})
	options := metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + nodePool}
	list, err := claims.List(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	r := &claimRecord{exist: map[string]bool{}}
	for i := range list.Items {
		r.add(list.Items[i].GetName())
	}
	// The watch outlives this node's context.
	options.ResourceVersion = list.GetResourceVersion()
	w, err := claims.Watch(context.WithoutCancel(ctx), options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.Stop)
	go func() {
		for event := range w.ResultChan() {
			r.note(event)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = true
	}()
	return r
}

func (r *claimRecord) note(event watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	claim, ok := event.Object.(*unstructured.Unstructured)
	switch {
	case !ok || event.Type == watch.Error:
		r.ended = true
	case event.Type == watch.Deleted:
		delete(r.exist, claim.GetName())
	default:
		r.add(claim.GetName())
	}
}

func (r *claimRecord) add(name string) {
	if !r.exist[name] {
		r.exist[name] = true
		r.created++
	}
	r.most = max(r.most, len(r.exist))
}

// atMost returns the largest number of NodeClaims that existed at the same time so far.
func (r *claimRecord) atMost() int {
	GinkgoHelper()
	r.mu.Lock()
	defer r.mu.Unlock()
	Expect(r.ended).To(BeFalse(), "the watch of NodeClaims has ended")
	return r.most
}

// inAll returns how many NodeClaims have existed so far.
func (r *claimRecord) inAll() int {
	GinkgoHelper()
	r.mu.Lock()
	defer r.mu.Unlock()
	Expect(r.ended).To(BeFalse(), "the watch of NodeClaims has ended")
	return r.created
}
