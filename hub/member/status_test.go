package member

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

func TestWriteStatus(t *testing.T) {
	key := func(name, revision string) placement.TemplateKey {
		return placement.TemplateKey{Name: name, Revision: revision}
	}
	v := view{
		Verdict: health.Verdict{State: health.Ready}, counts: counts{sessions: 3},
		facts: facts{agent: agent{fingerprint: "fp", agentVersion: "1.2"}, reportedCapacity: reportedCapacity{capacity: &placement.Capacity{Nodes: 20, Templates: map[placement.TemplateKey]placement.TemplateCapacity{
			key("gpu", "r1"):     {Reason: v1alpha1.UnavailableResource, Message: "no node has nvidia.com/gpu"},
			key("browser", "r2"): {Available: true, Slots: 7},
			key("browser", "r1"): {Available: true, Slots: 5},
		}}}},
		current: map[string]string{"browser": "r2", "gpu": "r1"},
	}
	status := &v1alpha1.MemberClusterStatus{}
	writeStatus(status, v, 4)
	want := []v1alpha1.TemplateAvailability{
		{Name: "browser", Revision: "r2", Available: true, Slots: 7},
		{Name: "gpu", Revision: "r1", Reason: v1alpha1.UnavailableResource, Message: "no node has nvidia.com/gpu"},
	}
	if diff := cmp.Diff(want, status.Templates); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
	if status.ObservedGeneration != 4 || status.Sessions != 3 || status.Nodes != 20 || status.Fingerprint != "fp" || status.AgentVersion != "1.2" {
		t.Errorf("got %+v", status)
	}
	again := status.DeepCopy()
	writeStatus(again, v, 4)
	if !equality.Semantic.DeepEqual(status, again) {
		t.Errorf("writing it again changes it:\n%s", cmp.Diff(status, again))
	}
	writeStatus(again, view{Verdict: health.Verdict{State: health.Unreachable}, counts: counts{sessions: 3}}, 4)
	if diff := cmp.Diff(want, again.Templates); diff != "" || again.Nodes != 20 || again.Fingerprint != "fp" {
		t.Errorf("what was last reported is lost while it is away: %+v", again)
	}
}

func TestAStatusListsSomeOfManyTemplatesAndThoseThatCannotRun(t *testing.T) {
	const more = 7
	v := view{facts: facts{reportedCapacity: reportedCapacity{capacity: &placement.Capacity{Templates: map[placement.TemplateKey]placement.TemplateCapacity{}}}}, current: map[string]string{}}
	for i := range v1alpha1.MaxTemplateAvailabilities + more {
		name := fmt.Sprintf("t-%03d", i)
		v.current[name] = "r1"
		v.capacity.Templates[placement.TemplateKey{Name: name, Revision: "r1"}] = placement.TemplateCapacity{Available: i != 104}
	}
	status := &v1alpha1.MemberClusterStatus{}
	writeStatus(status, v, 1)
	listed := status.Templates
	if len(listed) != v1alpha1.MaxTemplateAvailabilities || status.TemplatesOmitted != more {
		t.Errorf("%d are listed, and %d omitted", len(listed), status.TemplatesOmitted)
	}
	if first, last := listed[0].Name, listed[len(listed)-1].Name; first != "t-000" || last != "t-104" {
		t.Errorf("listed from %s to %s, without the one that can't run", first, last)
	}
}

func TestStatusShowsRestrictions(t *testing.T) {
	r := &v1alpha1.MemberRestrictions{HostSuffixes: []string{"example.com"}}
	status := &v1alpha1.MemberClusterStatus{}
	writeStatus(status, view{facts: facts{agent: agent{agentVersion: "2", restrictions: r}}}, 1)
	if diff := cmp.Diff(r, status.Restrictions); diff != "" {
		t.Error(diff)
	}
	writeStatus(status, view{}, 1)
	if status.Restrictions == nil {
		t.Error("they are dropped while the agent is away")
	}
	writeStatus(status, view{facts: facts{agent: agent{agentVersion: "1"}}}, 1)
	if status.Restrictions != nil {
		t.Error("those of an earlier agent are shown of one that has none")
	}
}

func TestPodSecurityCondition(t *testing.T) {
	for _, tc := range []struct {
		capacity *placement.Capacity
		reason   string
		message  string
	}{
		{nil, "", ""},
		{&placement.Capacity{}, "", ""}, // an older agent does not report it
		{&placement.Capacity{PodSecurity: true}, v1alpha1.ReasonEnforced, "all admitted namespaces"},
		{&placement.Capacity{PodSecurity: true, NotEnforced: []string{"a", "b", "c", "d", "e", "f", "g"}},
			v1alpha1.ReasonNotEnforced, "a, b, c, d, e and 2 more: have the member's administrator run `kubectl vdi admit`"},
	} {
		status := &v1alpha1.MemberClusterStatus{}
		writeStatus(status, view{facts: facts{reportedCapacity: reportedCapacity{capacity: tc.capacity}}}, 1)
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPodSecurity)
		if c == nil != (tc.reason == "") || c != nil && (c.Reason != tc.reason || !strings.Contains(c.Message, tc.message)) {
			t.Errorf("%+v: %+v", tc.capacity, c)
		}
	}
}
