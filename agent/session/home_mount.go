package session

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// mayMount reports whether a Pod that mounts the user's home may be created: two sessions must
// not write to it at once. The hub ensures that too, except for a rescheduled session that is
// still stopping.
func (s *podStep) mayMount(ctx context.Context, p *pass) (bool, error) {
	home := p.Assignment.Spec.Desktop.Home
	if home.Mode != api.HomePerUser {
		return true, nil
	}
	var mounted corev1.PodList
	err := s.APIReader.List(ctx, &mounted, client.InNamespace(p.Assignment.Namespace), client.MatchingLabels{render.LabelHome: home.ClaimName})
	if err != nil {
		return false, fmt.Errorf("listing the Pods that mount claim %s: %w", home.ClaimName, err)
	}
	for i := range mounted.Items {
		if other := mounted.Items[i].Name; other != p.Assignment.Name {
			p.Found.OtherUser = other
			p.RequeueWithin(removalPoll) // its end may cause no event
			return false, nil
		}
	}
	claim := types.NamespacedName{Namespace: p.Assignment.Namespace, Name: home.ClaimName}
	other, wait := s.mounts.acquire(claim, p.Assignment.Name, p.Now)
	p.Found.OtherUser = other
	p.RequeueWithin(wait)
	return other == "", nil
}

// mounts remembers which assignment mounted a claim last, until the API server shows its Pod.
type mounts struct {
	mu      sync.Mutex
	byClaim map[types.NamespacedName]mount
}

type mount struct {
	assignment string
	at         time.Time
}

// acquire acquires a claim for an assignment, or returns the other assignment that has it, and
// for how long.
func (m *mounts) acquire(claim types.NamespacedName, assignment string, now time.Time) (other string, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.byClaim, func(_ types.NamespacedName, last mount) bool { return now.Sub(last.at) >= children.CacheDelay })
	if last, ok := m.byClaim[claim]; ok && last.assignment != assignment {
		return last.assignment, children.CacheDelay - now.Sub(last.at)
	}
	if m.byClaim == nil {
		m.byClaim = map[types.NamespacedName]mount{}
	}
	m.byClaim[claim] = mount{assignment: assignment, at: now}
	return "", 0
}
