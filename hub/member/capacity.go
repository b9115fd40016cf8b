package member

import (
	"fmt"
	"maps"
	"unique"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const (
	// maxCapacityBytes bounds a report together with its later changes. It is the size limit
	// of a whole report, which is one message.
	maxCapacityBytes = 4 << 20
	// maxCapacityTemplates is the bound while the hub has not read its templates yet.
	maxCapacityTemplates = 4096
)

// templateKeys are the template revisions that agents evaluate, or nil until they are read.
// The map is replaced, never changed.
type templateKeys map[placement.TemplateKey]struct{}

func keysOf(set *fleetv1.TemplateSet) templateKeys {
	keys := make(templateKeys, len(set.GetTemplates()))
	for _, t := range set.GetTemplates() {
		keys[placement.TemplateKey{Name: t.GetName(), Revision: t.GetRevision()}] = struct{}{}
	}
	return keys
}

// requested reports whether to keep a template's capacity if that of others is kept already.
func (k templateKeys) requested(key placement.TemplateKey, others int) bool {
	if k == nil {
		return others < maxCapacityTemplates
	}
	_, requested := k[key]
	return requested
}

// equal reports whether a report has exactly these templates. Of changes, all that is known counts.
func (k templateKeys) equal(r *fleetv1.CapacityReport, known *placement.Capacity) bool {
	if r.GetBasedOn() != 0 {
		return maps.EqualFunc(k, known.Templates, func(struct{}, placement.TemplateCapacity) bool { return true })
	}
	for _, t := range r.GetTemplates() {
		if _, has := k[placement.TemplateKey{Name: t.GetName(), Revision: t.GetRevision()}]; !has {
			return false
		}
	}
	return len(r.GetTemplates()) == len(k)
}

// reportedCapacity is a member's last reported capacity.
type reportedCapacity struct {
	// fresh is set if the open connection reported it, or that nothing of it has changed.
	fresh    bool
	capacity *placement.Capacity
}

// applied is the result of applying a capacity report.
type applied struct {
	// capacity is nil for changes relative to a report that the hub does not have: the next
	// whole report, which comes soon, has everything.
	capacity *placement.Capacity
	// changed is false for a repeated report: an agent periodically resends the whole
	// report.
	changed bool
	// templates are those whose availability changed, or the reason why they can't run
	// there.
	templates []placement.TemplateKey
}

// apply applies a capacity report, for the templates that agents evaluate, without changing the
// receiver. It returns an error if an agent reports more than a member can have.
func (was reportedCapacity) apply(r *fleetv1.CapacityReport, requested templateKeys) (applied, error) {
	changes := r.GetBasedOn() != 0
	if changes && (was.capacity == nil || was.capacity.Sequence != r.GetBasedOn()) {
		return applied{}, nil
	}
	if changes && r.GetSequence() == r.GetBasedOn() {
		return applied{capacity: was.capacity, changed: !was.fresh}, nil // it is still as it was
	}
	if changes && len(r.GetTemplates()) == 0 {
		// As when all agents of a large fleet connect again at once: the templates are shared.
		now := capacityFromWire(r, 0)
		now.Templates = was.capacity.Templates
		return applied{capacity: now, changed: true}, nil
	}
	now := capacityFromWire(r, len(was.capacity.ByTemplate()))
	if changes {
		for key, t := range was.capacity.Templates {
			if _, changed := now.Templates[key]; !changed {
				now.Templates[key] = t
			}
		}
		shareBuckets(now, was.capacity)
	} else {
		shareBuckets(now, nil)
	}
	if err := bound(now, requested); err != nil {
		return applied{}, err
	}
	changed := !was.fresh || was.capacity == nil || was.capacity.Sequence != r.GetSequence()
	return applied{capacity: now, changed: changed, templates: changedTemplates(was.capacity, now)}, nil
}

// bound drops templates that agents do not evaluate, and returns an error if the others
// exceed maxCapacityBytes.
func bound(now *placement.Capacity, requested templateKeys) error {
	total, kept := 0, 0
	for key := range now.Templates {
		if !requested.requested(key, kept) {
			delete(now.Templates, key)
			unrequestedTemplates.Inc()
			continue
		}
		kept, total = kept+1, total+int(now.Templates[key].Bytes)
	}
	if total > maxCapacityBytes {
		return fmt.Errorf("%w: its capacity reports add up to %d MiB, more than %d: upgrade the agent, or revoke it if it is not to be trusted (spec.access)",
			protocol.ErrExcess, total>>20, maxCapacityBytes>>20)
	}
	return nil
}

// capacityFromWire converts a report. templates is how many it is expected to have together with
// those of an earlier one. A missing field means no capacity.
func capacityFromWire(r *fleetv1.CapacityReport, templates int) *placement.Capacity {
	c := &placement.Capacity{
		Sequence:           r.GetSequence(),
		Nodes:              r.GetNodes(),
		AdmittedNamespaces: placement.NewNamespaces(r.GetAdmittedNamespaces()...),
		PodSecurity:        r.GetPodSecurity() != nil,
		NotEnforced:        r.GetPodSecurity().GetNotEnforced(),
		Templates:          make(map[placement.TemplateKey]placement.TemplateCapacity, max(templates, len(r.GetTemplates()))),
		NodeGroups:         nodeGroupsFromWire(r.GetNodeGroups()),
		Buffers:            buffersFromWire(r.GetBuffers()),
	}
	for _, t := range r.GetTemplates() {
		tc := placement.TemplateCapacity{
			Available:     t.GetAvailable(),
			Reason:        t.GetReason(),
			Message:       t.GetMessage(),
			ImageNodes:    t.GetImageNodes(),
			Slots:         t.GetSlots(),
			GrowableSlots: t.GetGrowableSlots(),
			Bytes:         int32(proto.Size(t)), //nolint:gosec // at most 4 MiB
		}
		if len(t.GetOverhead()) > 0 {
			tc.Overhead = resourcesFromWire(t.GetOverhead())
		}
		for _, b := range t.GetBuckets() {
			tc.Buckets = append(tc.Buckets, bucketFromWire(b))
		}
		tc.Growth = growthFromWire(t)
		if t.GetBucketsOf() != "" {
			name, revision := convert.ParseTemplateRef(t.GetBucketsOf())
			tc.BucketsOf = unique.Make(placement.TemplateKey{Name: name, Revision: revision})
		}
		key := placement.TemplateKey{Name: t.GetName(), Revision: t.GetRevision()}
		// All members report the same templates.
		trim.Strings(&key.Name, &key.Revision, &tc.Reason, &tc.Message)
		c.Templates[key] = tc
	}
	return c
}

// shareBuckets gives templates the buckets and the growth of those that they refer to. One that is not in the
// report, since the hub no longer requests it, has not changed since the report before.
func shareBuckets(now, before *placement.Capacity) {
	for key, t := range now.Templates {
		if t.BucketsOf == (unique.Handle[placement.TemplateKey]{}) {
			continue
		}
		if owner, reported := now.Templates[t.BucketsOf.Value()]; reported {
			t.Buckets, t.Growth = owner.Buckets, owner.Growth
		} else if before != nil && before.Templates[key].BucketsOf == t.BucketsOf {
			t.Buckets, t.Growth = before.Templates[key].Buckets, before.Templates[key].Growth
		}
		now.Templates[key] = t
	}
}

func resourcesFromWire(amounts map[string]int64) placement.Resources {
	out := make(placement.Resources, len(amounts))
	for name, amount := range amounts {
		out[corev1.ResourceName(name)] = amount
	}
	return out
}

func amountsFromWire(amounts map[string]int64) placement.Amounts {
	out := resourcesFromWire(amounts).Amounts()
	for i := range out {
		trim.Strings((*string)(&out[i].Name)) // all nodes have the same resources
	}
	return out
}

// changedTemplates returns the templates whose availability differs. before may be nil.
func changedTemplates(before, now *placement.Capacity) []placement.TemplateKey {
	var out []placement.TemplateKey
	for key := range now.Templates {
		is := now.Templates[key]
		var was placement.TemplateCapacity
		if before != nil {
			was = before.Templates[key]
		}
		if is.Available != was.Available || is.Reason != was.Reason || is.Message != was.Message {
			out = append(out, key)
		}
	}
	return out
}
