package protocol

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Bounds of what an agent reports of itself and of its member. Those of reports of
// sessions are in proto/convert.
const (
	// maxEpoch is above any epoch or term ever issued, and far below the overflow.
	maxEpoch = 1 << 53
	// A capacity report.
	maxNamespaces = 4096
	maxTemplates  = 4096
	maxBuckets    = 1024
	// A node group. No member has more nodes, and the total of all groups is far below the overflow.
	maxNodes = 1 << 20
	// A buffer, as the API limits it.
	maxBufferSlots = 10_000
	// The message of a node group or a buffer.
	maxStateMessage = 1024
)

func boundHello(h *fleetv1.Hello) error {
	c := &convert.Checks{}
	c.Token("instance", h.GetInstance(), convert.MaxToken)
	c.Token("fingerprint", h.GetFingerprint(), convert.MaxToken)
	c.Token("agent_version", h.GetAgentVersion(), convert.MaxToken)
	c.Token("highest_hub_term_proof", h.GetHighestHubTermProof(), convert.MaxProof)
	c.AtMost("highest_hub_term", h.GetHighestHubTerm(), maxEpoch)
	c.AtMost("agent_term", h.GetAgentTerm(), maxEpoch)
	c.Tokens("capabilities", h.GetCapabilities(), convert.MaxToken)
	c.Tokens("required_capabilities", h.GetRequiredCapabilities(), convert.MaxToken)
	// The bounds of what an agent accepts as settings.
	r := h.GetRestrictions()
	c.Tokens("restrictions.host_suffixes", r.GetHostSuffixes(), convert.MaxName)
	c.Tokens("restrictions.image_prefixes", r.GetImagePrefixes(), convert.MaxName)
	c.Tokens("restrictions.runtime_classes", r.GetRuntimeClasses(), convert.MaxName)
	c.Tokens("restrictions.priority_classes", r.GetPriorityClasses(), convert.MaxName)
	if c.Err != nil {
		return fmt.Errorf("%w: %w", ErrViolation, c.Err)
	}
	return nil
}

// boundResult refuses a result beyond its limits. Its message is cut when it is read.
func boundResult(r *fleetv1.OrderResult) error {
	c := &convert.Checks{}
	c.AtMost("epoch", r.GetEpoch(), maxEpoch)
	c.Token("session_uid", r.GetSessionUid(), convert.MaxToken)
	c.Name("namespace", r.GetNamespace())
	c.Name("name", r.GetName())
	c.Token("spec_hash", r.GetSpecHash(), convert.MaxToken)
	c.Token("reason", r.GetReason(), convert.MaxToken)
	return c.Err
}

// boundCapacity removes from a report, in place, what is beyond its limits, and
// returns the reasons. A template that is removed has no free capacity.
func boundCapacity(r *fleetv1.CapacityReport) (malformed []error) {
	r.Nodes, r.Assignments = max(0, r.GetNodes()), max(0, r.GetAssignments())
	r.AdmittedNamespaces = within("admitted_namespaces", r.AdmittedNamespaces, maxNamespaces, convert.CheckName, &malformed)
	if p := r.GetPodSecurity(); p != nil {
		p.NotEnforced = within("pod_security.not_enforced", p.NotEnforced, maxNamespaces, convert.CheckName, &malformed)
	}
	r.Templates = within("templates", r.Templates, maxTemplates, boundTemplate, &malformed)
	r.NodeGroups = within("node_groups", r.NodeGroups, v1alpha1.MaxNodeGroups, distinct((*fleetv1.NodeGroupStatus).GetName, boundNodeGroup), &malformed)
	r.Buffers = within("buffers", r.Buffers, v1alpha1.MaxBuffers, distinct((*fleetv1.BufferStatus).GetTemplate, boundBuffer), &malformed)
	return malformed
}

// within removes from a list, in place, the items that check refuses and those
// beyond a number.
func within[T any](field string, all []T, most int, check func(field string, item T) error, malformed *[]error) []T {
	kept := all[:0]
	for _, item := range all {
		err := check(field, item)
		if err == nil && len(kept) >= most {
			err = fmt.Errorf("%s: more than %d", field, most)
		}
		if err != nil {
			*malformed = append(*malformed, fmt.Errorf("reading capacity: %w", err))
			continue
		}
		kept = append(kept, item)
	}
	return kept
}

func boundTemplate(_ string, t *fleetv1.TemplateCapacity) error {
	c := &convert.Checks{}
	c.Name("templates.name", t.GetName())
	c.Token("templates.revision", t.GetRevision(), convert.MaxToken)
	c.Token("templates.reason", t.GetReason(), convert.MaxToken)
	c.Token("templates.buckets_of", t.GetBucketsOf(), convert.MaxName+convert.MaxToken)
	c.NotNegative("templates.slots", int64(t.GetSlots()))
	c.NotNegative("templates.growable_slots", int64(t.GetGrowableSlots()))
	c.NotNegative("templates.image_nodes", int64(t.GetImageNodes()))
	boundResources(c, "templates.overhead", t.GetOverhead())
	boundBuckets(c, "templates.buckets", t.GetBuckets())
	boundBuckets(c, "templates.provisioning", t.GetProvisioning())
	boundBuckets(c, "templates.growable", t.GetGrowable())
	if c.Err != nil {
		return fmt.Errorf("template %.*q: %w", maxQuoted, t.GetName(), c.Err)
	}
	t.Message = convert.Sentence(t.GetMessage(), convert.MaxMessage)
	return nil
}

func boundBuckets(c *convert.Checks, field string, buckets []*fleetv1.Bucket) {
	c.Count(field, len(buckets), maxBuckets)
	for _, b := range buckets {
		c.NotNegative(field+".nodes", int64(b.GetNodes()))
		c.Token(field+".node_group", b.GetNodeGroup(), convert.MaxName)
		boundResources(c, field+".free", b.GetFree())
	}
}

// distinct returns a check that also refuses an item with the name of an earlier one.
func distinct[T any](name func(T) string, check func(field string, item T) error) func(field string, item T) error {
	names := map[string]bool{}
	return func(field string, item T) error {
		if err := check(field, item); err != nil {
			return err
		}
		if names[name(item)] {
			return fmt.Errorf("%s: %q is reported twice", field, name(item))
		}
		names[name(item)] = true
		return nil
	}
}

func boundBuffer(_ string, b *fleetv1.BufferStatus) error {
	c := &convert.Checks{}
	c.Name("buffers.template", b.GetTemplate())
	c.Token("buffers.reason", b.GetReason(), convert.MaxToken)
	for _, number := range []int32{b.GetHeld(), b.GetPending()} {
		c.NotNegative("buffers: a number of slots", int64(number))
		c.AtMost("buffers: a number of slots", int64(number), maxBufferSlots)
	}
	if c.Err != nil {
		return fmt.Errorf("buffer of template %.*q: %w", maxQuoted, b.GetTemplate(), c.Err)
	}
	b.Message = convert.Sentence(b.GetMessage(), maxStateMessage)
	return nil
}

func boundNodeGroup(_ string, g *fleetv1.NodeGroupStatus) error {
	c := &convert.Checks{}
	c.Name("node_groups.name", g.GetName())
	c.Token("node_groups.state", g.GetState(), convert.MaxToken)
	c.Token("node_groups.reason", g.GetReason(), convert.MaxToken)
	for _, number := range []int32{g.GetNodes(), g.GetProvisioning(), g.GetGrowable(), g.GetMaxNodes()} {
		c.NotNegative("node_groups: a number of nodes", int64(number))
		c.AtMost("node_groups: a number of nodes", int64(number), maxNodes)
	}
	c.NotNegative("node_groups.provisioning_time", g.GetProvisioningTime().GetSeconds())
	if c.Err != nil {
		return fmt.Errorf("node group %.*q: %w", maxQuoted, g.GetName(), c.Err)
	}
	if t := g.GetRetryTime(); t != nil && !t.IsValid() {
		return fmt.Errorf("node group %s: node_groups.retry_time is not a time", g.GetName())
	}
	g.Message = convert.Sentence(g.GetMessage(), maxStateMessage)
	return nil
}

func boundResources(c *convert.Checks, field string, amounts map[string]int64) {
	c.Count(field, len(amounts), convert.MaxList)
	for name, amount := range amounts {
		c.Token(field, name, convert.MaxName)
		c.NotNegative(field, amount)
	}
}
