package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestModeThatWouldLoseAHomeIsNotAccepted(t *testing.T) {
	home := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}}
	for mode, refused := range map[v1alpha1.FailoverMode]bool{"": false, "Hold": false, "Restart": true, "Fence": true} {
		s := sessiontest.With()
		s.Spec.Failover.Mode = mode
		c := acceptance(s, home, false, nil)
		g := NewWithT(t)
		g.Expect(c.Status == metav1.ConditionFalse).To(Equal(refused), "mode %q", mode)
		if refused {
			g.Expect(c.Reason).To(Equal(v1alpha1.ReasonFailoverLosesHome))
			g.Expect(c.Message).To(And(ContainSubstring(string(mode)), ContainSubstring("set it to Hold")))
		}
		g.Expect(acceptance(s, &v1alpha1.TemplateSpec{}, false, nil).Status).To(Equal(metav1.ConditionTrue), "mode %q without a home", mode)
	}
}
