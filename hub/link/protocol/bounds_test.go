package protocol

import (
	"strings"
	"testing"

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
