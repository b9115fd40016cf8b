package protocol

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestNoStringOfAnAgentIsObeyedByATerminal(t *testing.T) {
	const obeyed = "\x1b]52;c;Y3VybA==\x07\x1b[2A\rforged"
	report := &fleetv1.CapacityReport{Templates: []*fleetv1.TemplateCapacity{{Name: "t", Message: obeyed}}}
	if malformed := boundCapacity(report); len(malformed) > 0 || report.Templates[0].Message != convert.Printable(obeyed) {
		t.Errorf("%v, %q", malformed, report.Templates[0].Message)
	}
	results, _ := readResults([]*fleetv1.OrderResult{{SessionUid: "u", Namespace: "n", Name: "s", Epoch: 1, Code: fleetv1.ResultCode_RESULT_CODE_REFUSED, Message: obeyed}})
	if len(results) != 1 || results[0].Message != convert.Printable(obeyed) {
		t.Errorf("%+v", results)
	}
	for _, r := range []*fleetv1.TemplateCapacity{
		{Name: "t", Reason: obeyed}, {Name: obeyed}, {Name: "t", Revision: obeyed}, {Name: "t", Overhead: map[string]int64{obeyed: 1}},
	} {
		if len(boundCapacity(&fleetv1.CapacityReport{Templates: []*fleetv1.TemplateCapacity{r}})) == 0 {
			t.Errorf("%v was read", r)
		}
	}
}

func TestOneResultBeyondItsLimitsCostsNoOther(t *testing.T) {
	result := func(change func(*fleetv1.OrderResult)) *fleetv1.OrderResult {
		r := &fleetv1.OrderResult{SessionUid: "u", Namespace: "n", Name: "s", Epoch: 1, Code: fleetv1.ResultCode_RESULT_CODE_STOPPED}
		change(r)
		return r
	}
	read, malformed := readResults([]*fleetv1.OrderResult{
		result(func(r *fleetv1.OrderResult) { r.SessionUid = strings.Repeat("u", 200) }),
		result(func(r *fleetv1.OrderResult) { r.Name = "../s" }),
		result(func(r *fleetv1.OrderResult) { r.Epoch = maxEpoch + 1 }),
		result(func(r *fleetv1.OrderResult) { r.Reason = strings.Repeat("R", 200) }),
		result(func(r *fleetv1.OrderResult) { r.Code = 99 }),
		result(func(*fleetv1.OrderResult) {}),
	})
	if len(read) != 1 || len(malformed) != 5 {
		t.Errorf("%d were read, and %d were not: %v", len(read), len(malformed), malformed)
	}
}

func TestOneTemplateBeyondItsLimitsCostsNoOther(t *testing.T) {
	bucket := func(nodes int32, free int64) []*fleetv1.Bucket {
		return []*fleetv1.Bucket{{Nodes: nodes, Free: map[string]int64{"cpu": free}}}
	}
	report := &fleetv1.CapacityReport{Nodes: -1, AdmittedNamespaces: []string{"good", "Bad"}, Templates: []*fleetv1.TemplateCapacity{
		{Name: "good", Buckets: bucket(1, 1)}, {Name: "few", Buckets: bucket(-1, 1)}, {Name: "little", Buckets: bucket(1, -1)}, {Name: "A B"}, {Name: "images", ImageNodes: -1},
	}}
	malformed := boundCapacity(report)
	if len(malformed) != 5 || len(report.Templates) != 1 || len(report.AdmittedNamespaces) != 1 || report.Nodes != 0 {
		t.Errorf("%v is left, without %v", report, malformed)
	}
}

func TestOneNodeGroupBeyondItsLimitsCostsNoOther(t *testing.T) {
	group := func(name string, change func(*fleetv1.NodeGroupStatus)) *fleetv1.NodeGroupStatus {
		g := &fleetv1.NodeGroupStatus{Name: name, State: "Available", Nodes: 1, ProvisioningTime: durationpb.New(time.Minute), RetryTime: timestamppb.New(time.Unix(1, 0))}
		change(g)
		return g
	}
	const obeyed = "\x1b[2A\rforged"
	report := &fleetv1.CapacityReport{NodeGroups: []*fleetv1.NodeGroupStatus{
		group("good", func(g *fleetv1.NodeGroupStatus) { g.Message = obeyed + strings.Repeat("m", 2000) }),
		group("good", func(*fleetv1.NodeGroupStatus) {}),
		group("", func(*fleetv1.NodeGroupStatus) {}),
		group("a b", func(*fleetv1.NodeGroupStatus) {}),
		group("state", func(g *fleetv1.NodeGroupStatus) { g.State = obeyed }),
		group("reason", func(g *fleetv1.NodeGroupStatus) { g.Reason = strings.Repeat("R", 200) }),
		group("nodes", func(g *fleetv1.NodeGroupStatus) { g.Nodes = -1 }),
		group("provisioning", func(g *fleetv1.NodeGroupStatus) { g.Provisioning = -1 }),
		group("growable", func(g *fleetv1.NodeGroupStatus) { g.Growable = maxNodes + 1 }),
		group("most", func(g *fleetv1.NodeGroupStatus) { g.MaxNodes = -1 }),
		group("time", func(g *fleetv1.NodeGroupStatus) { g.ProvisioningTime = durationpb.New(-time.Second) }),
		group("retry", func(g *fleetv1.NodeGroupStatus) { g.RetryTime = &timestamppb.Timestamp{Seconds: 1 << 62} }),
	}}
	malformed := boundCapacity(report)
	if len(malformed) != 11 || len(report.NodeGroups) != 1 {
		t.Errorf("%v are left, without %v", report.NodeGroups, malformed)
	}
	if message := report.NodeGroups[0].Message; len(message) != maxStateMessage || strings.ContainsAny(message, "\x1b\r") {
		t.Errorf("%q", message)
	}
	report.NodeGroups = nil
	for i := range 40 {
		report.NodeGroups = append(report.NodeGroups, group(fmt.Sprint("g", i), func(*fleetv1.NodeGroupStatus) {}))
	}
	if malformed := boundCapacity(report); len(malformed) != 8 || len(report.NodeGroups) != 32 {
		t.Errorf("%d are left, without %d", len(report.NodeGroups), len(malformed))
	}
}

func TestOneBufferBeyondItsLimitsCostsNoOther(t *testing.T) {
	const obeyed = "\x1b[2A\rforged"
	report := &fleetv1.CapacityReport{Buffers: []*fleetv1.BufferStatus{
		{Template: "good", Held: 10_000, Pending: 1, Reason: "NoBufferCapacity", Message: obeyed + strings.Repeat("m", 2000)},
		{Template: "good"}, {}, {Template: "a b"}, {Template: "reason", Reason: obeyed},
		{Template: "held", Held: -1}, {Template: "held", Held: 10_001}, {Template: "pending", Pending: -1},
	}}
	malformed := boundCapacity(report)
	if len(malformed) != 7 || len(report.Buffers) != 1 {
		t.Errorf("%v are left, without %v", report.Buffers, malformed)
	}
	if message := report.Buffers[0].Message; len(message) != maxStateMessage || strings.ContainsAny(message, "\x1b\r") {
		t.Errorf("%q", message)
	}
	report.Buffers = nil
	for i := range 70 {
		report.Buffers = append(report.Buffers, &fleetv1.BufferStatus{Template: fmt.Sprint("t", i)})
	}
	if malformed := boundCapacity(report); len(malformed) != 6 || len(report.Buffers) != 64 {
		t.Errorf("%d are left, without %d", len(report.Buffers), len(malformed))
	}
}

func TestGrowthBeyondItsLimitsIsNoCapacity(t *testing.T) {
	many := make([]*fleetv1.Bucket, maxBuckets+1)
	for i := range many {
		many[i] = &fleetv1.Bucket{}
	}
	for _, r := range []*fleetv1.TemplateCapacity{
		{GrowableSlots: -1},
		{Growable: many}, {Provisioning: many},
		{Growable: []*fleetv1.Bucket{{Nodes: -1}}}, {Provisioning: []*fleetv1.Bucket{{Nodes: -1}}},
		{Growable: []*fleetv1.Bucket{{NodeGroup: "a b"}}}, {Provisioning: []*fleetv1.Bucket{{Free: map[string]int64{"cpu": -1}}}},
	} {
		r.Name = "t"
		if len(boundCapacity(&fleetv1.CapacityReport{Templates: []*fleetv1.TemplateCapacity{r}})) == 0 {
			t.Errorf("%v was read", r)
		}
	}
	good := &fleetv1.CapacityReport{Templates: []*fleetv1.TemplateCapacity{{
		Name: "t", GrowableSlots: 3, Provisioning: []*fleetv1.Bucket{{Nodes: 1, NodeGroup: "desktops"}}, Growable: []*fleetv1.Bucket{{Nodes: 2, NodeGroup: "desktops"}},
	}}}
	if malformed := boundCapacity(good); len(malformed) > 0 {
		t.Error(malformed)
	}
}
