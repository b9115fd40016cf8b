package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

// session is a session with the hub's state of it.
type session struct {
	*trace.Session
	uid       types.UID
	template  placement.TemplateKey
	resources placement.Resources

	epoch int64
	// member that it is placed in; nil if it has no placement.
	member *member
	// releasing are earlier placements whose stop is not confirmed, by member.
	releasing map[*member]int64
	// waits is true while it is pending on the hub, failover once its member is lost
	// and until a member stores it, over once it is finished.
	waits, failover, over bool

	// refused holds recent refusals by member; inRow counts those in a row.
	refused map[types.UID]refusal
	inRow   int

	// left of its running time, which the hub passes to the next placement.
	left time.Duration
	// landed is when its Pod first had a node, if hasNode is true.
	landed  time.Duration
	hasNode bool
}

// refusal excludes a member until it expires or the member has sent a newer report.
type refusal struct {
	until    time.Duration
	sequence uint64
}

const (
	gpuResource = corev1.ResourceName("nvidia.com/gpu")
	mebibyte    = int64(1) << 20
)

// The two templates of the fleet.
var (
	desk        = placement.TemplateKey{Name: "desk", Revision: "r1"}
	workstation = placement.TemplateKey{Name: "workstation", Revision: "r1"}
)

// gpuTaint keeps Pods that request no GPU off nodes that have some.
var gpuTaint = corev1.Taint{Key: string(gpuResource), Effect: corev1.TaintEffectNoSchedule}

func tolerations(s trace.Size) []corev1.Toleration {
	if s.GPU == 0 {
		return nil
	}
	return []corev1.Toleration{{Key: gpuTaint.Key, Operator: corev1.TolerationOpExists}}
}

func newSession(s *trace.Session) *session {
	out := &session{
		Session: s, uid: types.UID(s.Name), template: desk, left: s.Runs,
		releasing: map[*member]int64{}, refused: map[types.UID]refusal{},
		resources: placement.Resources(resourcesOf(s.Size)),
	}
	if s.GPU > 0 {
		out.template = workstation
	}
	return out
}

func resourcesOf(s trace.Size) map[corev1.ResourceName]int64 {
	out := map[corev1.ResourceName]int64{corev1.ResourceCPU: s.CPU, corev1.ResourceMemory: s.Memory * mebibyte}
	if s.GPU > 0 {
		out[gpuResource] = s.GPU
	}
	return out
}

// requirementsOf returns a template for sessions of a size, as the hub sends it.
func requirementsOf(t placement.TemplateKey, size trace.Size) *fleetv1.TemplateRequirements {
	quantities := map[string]string{}
	for name, amount := range resourcesOf(size) {
		quantities[string(name)] = v1alpha1.AmountText(name, amount)
	}
	return &fleetv1.TemplateRequirements{
		Name: t.Name, Revision: t.Revision, Resources: quantities, Tolerations: convert.TolerationsToWire(tolerations(size)),
	}
}

// request returns the request to place the session now.
func (s *session) request(now time.Duration, h *hub) placement.Request {
	r := placement.Request{
		UID: s.uid, Namespace: s.Namespace, Name: s.Name, User: s.User,
		Template: s.template, Resources: s.resources, Failover: s.failover, Policy: &h.policy,
	}
	if s.Region != "" {
		r.PreferredRegions = h.regions[s.Region]
	}
	for member, f := range s.refused {
		if f.until <= now || h.sequences[member] > f.sequence {
			delete(s.refused, member)
			continue
		}
		if r.Refused == nil {
			r.Refused = map[types.UID]string{}
		}
		r.Refused[member] = v1alpha1.RefusedNoCapacity
	}
	return r
}
