package cache

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// The write of a decision has an unknown outcome, and the session is decided on again.
// If the first write was stored, its capacity stays reserved, and that of the second is
// free.
func TestDecisionWhoseWriteWasStoredAfterAllKeepsItsCapacity(t *testing.T) {
	for name, released := range map[string]bool{
		"the cache shows it before the second write fails": false,
		"the second write has failed":                      true,
	} {
		t.Run(name, func(t *testing.T) {
			x := newFixture(t, member("eu", "eu", 100), member("us", "us", 100))
			only := func(m types.UID) placement.Request {
				req, other := request("a"), map[types.UID]types.UID{"uid-eu": "uid-us", "uid-us": "uid-eu"}[m]
				req.Refused = map[types.UID]string{other: "not there"}
				return req
			}
			x.Expect(x.Place(only("uid-eu"), 1).Cluster.Name).To(Equal("eu"))
			x.Expect(x.Place(only("uid-us"), 1).Cluster.Name).To(Equal("us"))
			x.Expect(x.outstanding("uid-eu")).To(BeZero(), "by the hub's cache")
			if released {
				x.Release("uid-a")
			}
			shown := onHub("a", 1, "uid-eu")
			shown.Spec.Template, shown.Status.TemplateRevision = "browser", "r1"
			shown.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			x.Observe(shown, false)
			if !released {
				x.Release("uid-a")
			}
			x.Expect(x.outstanding("uid-eu")).To(Equal(1))
			x.Expect(x.outstanding("uid-us")).To(BeZero())
			x.Expect(x.sessions("uid-eu")).To(Equal(int32(1)))
			x.Expect(x.sessions("uid-us")).To(BeZero())
			x.Expect(x.placed.replaced).To(BeEmpty())
		})
	}
}

// If the second decision is stored, nothing is reserved for the first.
func TestDecisionThatWasReplacedAndNeverStoredReservesNoCapacity(t *testing.T) {
	x := newFixture(t, member("eu", "eu", 100), member("us", "us", 100))
	first := x.Place(request("a"), 1).Cluster.UID
	req := request("a")
	req.Refused = map[types.UID]string{first: "not there"}
	second := x.Place(req, 1).Cluster.UID
	x.Observe(onHub("a", 1, second), false)
	x.Expect(x.outstanding(first)).To(BeZero())
	x.Expect(x.outstanding(second)).To(Equal(1))
	x.Expect(x.placed.replaced).To(BeEmpty())

	x.Place(request("b"), 1)
	x.Place(request("b"), 1)
	x.Observe(onHub("b", 0, ""), true)
	x.Expect(x.placed.replaced).To(BeEmpty(), "of a session that is gone nothing is kept")
}
