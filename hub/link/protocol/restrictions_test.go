package protocol

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// What an agent reports of its restrictions gets into a status that people read.
func TestRestrictionsAreBounded(t *testing.T) {
	for name, r := range map[string]*fleetv1.Restrictions{
		"more entries than settings may have": {ImagePrefixes: slices.Repeat([]string{"a"}, convert.MaxList+1)},
		"an entry that is too long":           {HostSuffixes: []string{strings.Repeat("a", convert.MaxName+1)}},
		"what a terminal would obey":          {RuntimeClasses: []string{"\x1b]52;c;evil\a"}},
		"a line of its own":                   {PriorityClasses: []string{"a\nReady: True"}},
	} {
		if err := boundHello(&fleetv1.Hello{Instance: "i", Restrictions: r}); err == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
	if Restrictions(nil) != nil {
		t.Error("an agent that does not report restrictions has some")
	}
	got := Restrictions(&fleetv1.Restrictions{
		HostSuffixes: []string{"a"}, ImagePrefixes: []string{"b"}, RuntimeClasses: []string{"c"}, PriorityClasses: []string{"d"},
		OpenNetwork: true, PrivateEgress: true, LinkLocalEgress: true, ControlPlane: true,
	})
	want := &v1alpha1.MemberRestrictions{
		HostSuffixes: []string{"a"}, ImagePrefixes: []string{"b"}, RuntimeClasses: []string{"c"}, PriorityClasses: []string{"d"},
		AllowOpenNetwork: true, AllowPrivateEgress: true, AllowLinkLocalEgress: true, AllowControlPlane: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNamespacesWithoutPodSecurityAreBounded(t *testing.T) {
	report := &fleetv1.CapacityReport{PodSecurity: &fleetv1.PodSecurity{NotEnforced: []string{"good", "../bad", "\x1b[2J"}}}
	if malformed := boundCapacity(report); len(malformed) != 2 || !slices.Equal(report.PodSecurity.NotEnforced, []string{"good"}) {
		t.Errorf("%v is left, without %v", report, malformed)
	}
}
