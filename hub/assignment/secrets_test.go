package assignment

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
)

// A new leader lists all sessions, and an access Secret for each. With 100,000, reconciles of all of them
// at once delayed its members by 20 s.
func TestANewLeaderComparesSettledSessionsAtTheirRate(t *testing.T) {
	h := newConnecting(t)
	h.add("settled", true)
	h.add("edited", true, func(s *v1alpha1.VDISession) { s.Generation++ })
	h.Cached = index.Of(h.placed...)
	access := func(i int, listed bool) event.TypedCreateEvent[*corev1.Secret] {
		key := KeyOf(h.placed[i])
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		return event.TypedCreateEvent[*corev1.Secret]{Object: secret, IsInInitialList: listed}
	}
	for i, left := range []bool{false, true} {
		h.Expect(leftToDo(event.TypedCreateEvent[*v1alpha1.VDISession]{Object: h.placed[i], IsInInitialList: true})).To(Equal(left), h.placed[i].Name)
	}
	h.Expect(leftToDo(event.TypedCreateEvent[*v1alpha1.VDISession]{Object: h.placed[0]})).To(BeTrue(), "the hub did not know it")
	h.Expect(h.concerns(access(0, true))).To(BeFalse(), "it is settled")
	h.Expect(h.concerns(access(1, true))).To(BeTrue(), "something is left to do for it")
	h.Expect(h.concerns(access(0, false))).To(BeTrue(), "its Secret was created again")

	distributed := access(0, true)
	distributed.Object.Labels = map[string]string{v1alpha1.LabelSecret: v1alpha1.SecretDistribute}
	h.Expect(h.concerns(distributed)).To(BeTrue(), "another may be sent with many sessions")
}
