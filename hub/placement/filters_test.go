package placement

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestFilters(t *testing.T) {
	plain := func(*Candidate) {}
	same := func(*Request) {}
	noSchedule := []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	for _, tc := range []struct {
		name    string
		member  func(*Candidate)
		session func(*Request)
		filter  string // that fails, empty if it fits
		message string
	}{
		{name: "a plain member fits", member: plain, session: same, message: "8 slots left"},

		{name: "no memory at all, which a kubelet takes for no limit", member: plain,
			session: func(r *Request) { r.Resources = Resources{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 0} }, filter: "Limits",
			message: "accepts no session with 0 of memory (it would have no limit: delete it and create it with more)"},
		{name: "no devices, which is none", member: plain, session: func(r *Request) { r.Resources["nvidia.com/gpu"] = 0 }, message: "8 slots left"},

		{name: "not ready, with its reason", member: func(c *Candidate) { c.Ready = false; c.NotReady = "no agent has connected" },
			session: same, filter: "Ready", message: "is not ready (m: no agent has connected)"},

		{name: "an empty scheduling state is active", member: func(c *Candidate) { c.Scheduling = "" }, session: same, message: "8 slots left"},
		{name: "cordoned", member: func(c *Candidate) { c.Scheduling = v1alpha1.SchedulingCordoned }, session: same, filter: "Scheduling",
			message: `is cordoned (open it again: kubectl patch memberclusters m --type merge -p '{"spec":{"scheduling":"Active"}}')`},
		{name: "draining", member: func(c *Candidate) { c.Scheduling = v1alpha1.SchedulingDraining }, session: same, filter: "Scheduling",
			message: `is draining (open it again: kubectl patch memberclusters m --type merge -p '{"spec":{"scheduling":"Active"}}')`},

		{name: "a taint keeps away", member: func(c *Candidate) { c.Taints = noSchedule }, session: same, filter: "Taints",
			message: "has the taint dedicated=gpu:NoSchedule (tolerate it in spec.placement.clusterTolerations)"},
		{name: "a taint is tolerated by value", member: func(c *Candidate) { c.Taints = noSchedule },
			session: func(r *Request) { r.ClusterTolerations = []corev1.Toleration{{Key: "dedicated", Value: "gpu"}} }, message: "8 slots left"},
		{name: "a taint is tolerated by key", member: func(c *Candidate) { c.Taints = noSchedule },
			session: func(r *Request) {
				r.ClusterTolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
			}, message: "8 slots left"},
		{name: "every taint is tolerated", member: func(c *Candidate) { c.Taints = noSchedule },
			session: func(r *Request) { r.ClusterTolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }, message: "8 slots left"},
		{name: "a toleration of another value does not do", member: func(c *Candidate) { c.Taints = noSchedule },
			session: func(r *Request) { r.ClusterTolerations = []corev1.Toleration{{Key: "dedicated", Value: "big"}} }, filter: "Taints",
			message: "has the taint dedicated=gpu:NoSchedule (tolerate it in spec.placement.clusterTolerations)"},
		{name: "a toleration of another effect does not do", member: func(c *Candidate) { c.Taints = noSchedule },
			session: func(r *Request) {
				r.ClusterTolerations = []corev1.Toleration{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoExecute}}
			}, filter: "Taints",
			message: "has the taint dedicated=gpu:NoSchedule (tolerate it in spec.placement.clusterTolerations)"},
		{name: "a soft taint excludes no session", member: func(c *Candidate) {
			c.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, session: same, message: "8 slots left"},

		{name: "in a required region", member: plain, session: func(r *Request) { r.RequiredRegions = []string{"us", "eu"} }, message: "8 slots left"},
		{name: "outside the session's regions", member: plain, session: func(r *Request) { r.RequiredRegions = []string{"us", "ap"} },
			filter: "Regions", message: "is outside us, ap (see spec.placement.requiredRegions)"},
		{name: "outside the policy's regions, though in the session's", member: plain, session: func(r *Request) {
			r.RequiredRegions = []string{"eu"}
			r.Policy = &v1alpha1.PlacementPolicySpec{RequiredRegions: []string{"us"}}
		}, filter: "Regions", message: "is outside us (see the policy's requiredRegions)"},

		{name: "selected", member: plain, session: func(r *Request) { r.ClusterSelector = selecting("tier", "a") }, message: "8 slots left"},
		{name: "an empty selector matches", member: plain, session: func(r *Request) { r.ClusterSelector = &metav1.LabelSelector{} }, message: "8 slots left"},
		{name: "not selected by the session", member: plain, session: func(r *Request) { r.ClusterSelector = selecting("tier", "b") },
			filter: "ClusterSelector", message: "does not match spec.placement.clusterSelector (tier=b)"},
		{name: "not selected by the policy", member: plain, session: func(r *Request) {
			r.Policy = &v1alpha1.PlacementPolicySpec{RequiredClusters: selecting("tier", "b")}
		}, filter: "ClusterSelector", message: "does not match the policy's requiredClusters (tier=b)"},
		{name: "not selected by the template", member: plain, session: func(r *Request) { r.TemplateClusterSelector = selecting("tier", "b") },
			filter: "ClusterSelector", message: "does not match the template's clusterSelector (tier=b)"},
		{name: "a malformed selector matches nothing", member: plain, session: func(r *Request) {
			r.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Like"}}}
		}, filter: "ClusterSelector", message: `does not match spec.placement.clusterSelector (malformed: "Like" is not a valid label selector operator)`},

		{name: "holds the home", member: plain, session: func(r *Request) { r.Home = &v1alpha1.ClusterRef{Name: "m", UID: "uid-m"} }, message: "8 slots left"},
		{name: "a rebuilt cluster of the same name does not hold the home", member: plain,
			session: func(r *Request) { r.Home = &v1alpha1.ClusterRef{Name: "m", UID: "uid-old"} },
			filter:  "Home", message: "does not hold the user's home (it is in m)"},

		{name: "never reported", member: func(c *Candidate) { c.Capacity = nil }, session: same,
			filter: "Reported", message: "has not reported its capacity yet"},

		{name: "namespace not admitted", member: plain, session: func(r *Request) { r.Namespace = "secret" }, filter: "Namespace",
			message: "does not admit namespace secret (in member m: kubectl vdi admit secret)"},

		{name: "template not evaluated", member: plain, session: func(r *Request) { r.Template.Revision = "r2" },
			filter: "Template", message: "has not evaluated template desk yet"},
		{name: "template unavailable", member: func(c *Candidate) {
			c.Capacity = reporting()
			c.Capacity.Templates[desk] = TemplateCapacity{Reason: v1alpha1.UnavailableStorageClass, Message: `no storage class "fast"`}
		}, session: same, filter: "Template", message: `can't run template desk, NoSuchStorageClass (no storage class "fast")`},

		{name: "refused lately", member: plain, session: func(r *Request) { r.Refused = map[types.UID]string{"uid-m": "quota exceeded"} },
			filter: "Refused", message: "refused it recently (m: quota exceeded)"},
		{name: "refused by another", member: plain, session: func(r *Request) { r.Refused = map[types.UID]string{"uid-n": "quota exceeded"} },
			message: "8 slots left"},

		{name: "below its cap", member: func(c *Candidate) { c.Sessions = 3; c.SessionCap = ptr(int32(4)) }, session: same, message: "8 slots left"},
		{name: "at its cap", member: func(c *Candidate) { c.Sessions = 4; c.SessionCap = ptr(int32(4)) }, session: same,
			filter: "SessionCap", message: "is at its cap of sessions (raise spec.sessionCap of the MemberCluster)"},
		{name: "a cap of none", member: func(c *Candidate) { c.SessionCap = ptr(int32(0)) }, session: same,
			filter: "SessionCap", message: "is at its cap of sessions (raise spec.sessionCap of the MemberCluster)"},

		{name: "the earlier filter decides", member: func(c *Candidate) { c.Ready = false; c.Capacity = nil }, session: same,
			filter: "Ready", message: "is not ready (m)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := with(member("m", 1), tc.member)
			d := Explain(requestWith(session("s"), tc.session), []Candidate{c}, NewLedger())
			v := d.Verdicts[0]
			if v.Filter != tc.filter || v.Message != tc.message || v.Fits != (tc.filter == "") || d.Placed != v.Fits {
				t.Errorf("got filter %q: %s (placed %v)\nwant filter %q: %s", v.Filter, v.Message, d.Placed, tc.filter, tc.message)
			}
		})
	}
}

func selecting(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}
