package cache

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestSessionDoesNotCountAgainstItself(t *testing.T) {
	eu := member("eu", "eu", 1)
	eu.SessionCap = ptr.To[int32](1)
	x := newFixture(t, eu)
	x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())
	x.Observe(onHub("a", 1, "uid-eu"), false)
	// Suspended and resumed before its member has reported anything.
	d, away := x.Resume(request("a"), v1alpha1.ClusterRef{Name: "eu", UID: "uid-eu"}, 1, 2)
	x.Expect(d.Placed).To(BeTrue())
	x.Expect(away).To(BeFalse())
	x.Release("uid-a")
	x.Expect(x.outstanding("uid-eu")).To(Equal(1), "what it had before is its own still")
}
