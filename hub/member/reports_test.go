package member

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/cluster"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const active, stopped, refused = v1alpha1.AssignmentActive, v1alpha1.AssignmentStopped, v1alpha1.AssignmentRefused

func item(name string, epoch int64, state v1alpha1.AssignmentState) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
	a.Namespace, a.Name = "desktops", name
	a.Spec.Session.UID, a.Spec.Epoch = types.UID("uid-"+name), epoch
	a.Status.State = state
	return a
}

func reportsOf(items ...*v1alpha1.SessionAssignment) []protocol.Report {
	reports := make([]protocol.Report, 0, len(items))
	for _, a := range items {
		reports = append(reports, protocol.Report{SessionAssignment: a.DeepCopy(),
			Hash: convert.ItemHash(string(a.Spec.Session.UID), a.Spec.Epoch, "", uint64(len(a.Status.State)))})
	}
	return reports
}

func keyOfName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "desktops", Name: name}
}

// cache returns the cache of a member.
func (x *fixture) cache(uid types.UID) *cluster.Cache { return x.uids[uid].cluster.Cache }

// shown returns the items of a member's cache, as name -> state@epoch.
func (x *fixture) shown(uid types.UID) map[string]string {
	out := map[string]string{}
	for _, a := range x.cache(uid).Items() {
		out[a.Name] = fmt.Sprintf("%s@%d", a.Status.State, a.Spec.Epoch)
	}
	return out
}

// client returns the client of a member's cluster.
func (x *fixture) client(name string) client.Client {
	cl, err := x.Get(context.Background(), multicluster.ClusterName(name))
	x.Expect(err).NotTo(HaveOccurred())
	return cl.GetClient()
}

// reportAll reports a member's whole inventory.
func reportAll(m link.Member, items ...*v1alpha1.SessionAssignment) {
	m.Part(convert.AllBuckets(), reportsOf(items...))
}

// capacityReport returns a capacity report of nodes with one core each.
func capacityReport(sequence uint64, nodes int32) *fleetv1.CapacityReport {
	return &fleetv1.CapacityReport{
		Sequence: sequence, Nodes: nodes, AdmittedNamespaces: []string{"desktops"},
		Templates: []*fleetv1.TemplateCapacity{{
			Name: "browser", Revision: "r1", Available: true, Slots: nodes,
			Buckets: []*fleetv1.Bucket{{Nodes: nodes, Free: map[string]int64{"cpu": 1000, "pods": 1}}},
		}},
	}
}
