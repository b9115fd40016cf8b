package cache

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

var noon = time.Unix(1_700_000_000, 0)

// fleet is the members of a test. Like the members of a hub, all of them are the same slice in
// each snapshot.
type fleet []placement.Candidate

func (f fleet) Snapshot(of []types.UID) placement.Snapshot {
	s := placement.Snapshot{Now: noon, Candidates: f}
	if of != nil {
		s.Candidates = slices.DeleteFunc(slices.Clone(f), func(c placement.Candidate) bool { return !slices.Contains(of, c.UID) })
	}
	return s
}

func (fleet) FailoverOf(types.UID) failover.Decider { return failover.Facts{} }

func (fleet) SessionsMoved(_, _ []types.UID, _ []string) {}

// member returns a ready member with nodes that have capacity for one Pod each.
func member(name, region string, nodes int32) placement.Candidate {
	browser := placement.TemplateCapacity{Available: true,
		Buckets: []placement.Bucket{{Nodes: nodes, Free: placement.Resources{"cpu": 1000, "pods": 1}.Amounts()}}}
	return placement.Candidate{
		ClusterRef:        v1alpha1.ClusterRef{Name: name, UID: types.UID("uid-" + name)},
		MemberClusterSpec: v1alpha1.MemberClusterSpec{Region: region}, Ready: true,
		Capacity: &placement.Capacity{Sequence: 1, Nodes: nodes, AdmittedNamespaces: placement.NewNamespaces("desktops"),
			Templates: map[placement.TemplateKey]placement.TemplateCapacity{request("").Template: browser}},
	}
}

func newCache(of ...placement.Candidate) *Cache {
	c := New(clocktesting.NewFakePassiveClock(noon))
	c.Follow(fleet(of))
	return c
}

type fixture struct {
	*Cache
	*WithT
}

func newFixture(t *testing.T, of ...placement.Candidate) *fixture {
	t.Helper()
	return &fixture{newCache(of...), NewWithT(t)}
}

func (x *fixture) outstanding(member types.UID) int { return x.ledger.Outstanding(member) }

func (x *fixture) sessions(member types.UID) int32 {
	return x.Sessions(member)[0].All
}

func request(name string) placement.Request {
	return placement.Request{
		UID: types.UID("uid-" + name), Namespace: "desktops", Name: name, User: "ann",
		Template:  placement.TemplateKey{Name: "browser", Revision: "r1"},
		Resources: placement.Resources{"cpu": 1000},
	}
}

// onHub returns a session as the hub's cache shows it.
func onHub(name string, epoch int64, member types.UID) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	s.Name, s.UID, s.Status.Epoch = name, types.UID("uid-"+name), epoch
	s.Spec.Template, s.Status.TemplateRevision = "browser", "r1"
	s.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	if member != "" {
		s.Status.Placement = &v1alpha1.Placement{ClusterUID: member, Epoch: epoch}
	}
	return s
}
