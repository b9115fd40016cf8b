package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestAssignmentNameIsReadable(t *testing.T) {
	// The hash is pinned too: a change would orphan existing objects in members.
	const uid = types.UID("11111111-2222-3333-4444-555555555555")
	for _, tc := range []struct{ session, want string }{
		{"alice-browser", "alice-browser-"},
		{"team.alice", "team-alice-"},
		{"Alice_B", "alice-b-"},
		{"7zip", "s-7zip-"},
		{"...", "s-"},
		{"", "s-"},
		{strings.Repeat("a", 52), strings.Repeat("a", 52) + "-"},
		{strings.Repeat("a", 53), strings.Repeat("a", 52) + "-"},
		{strings.Repeat("a", 253), strings.Repeat("a", 52) + "-"},
		{strings.Repeat("a", 51) + "-" + strings.Repeat("b", 100), strings.Repeat("a", 51) + "-"},
	} {
		got := vdi.AssignmentName(tc.session, uid)
		prefix, ok := strings.CutSuffix(got, "cpnvdj5abc")
		if !ok || prefix != tc.want {
			t.Errorf("AssignmentName(%q) = %q, want %q and the hash of the UID", tc.session, got, tc.want)
		}
	}
}

func TestNamesKeepApart(t *testing.T) {
	for _, tc := range []struct{ name, one, other string }{
		{"a session recreated under its name", vdi.AssignmentName("a", "uid-1"), vdi.AssignmentName("a", "uid-2")},
		{"homes of a-b/c and a/b-c", vdi.HomeName("a-b", "c", "t"), vdi.HomeName("a", "b-c", "t")},
		{"homes of one user in two namespaces", vdi.HomeName("a", "u", "t"), vdi.HomeName("b", "u", "t")},
		{"homes of one user from two templates", vdi.HomeName("a", "u", "t1"), vdi.HomeName("a", "u", "t2")},
		{"homes of users whose names look alike as labels", vdi.HomeName("a", "u@x", "t"), vdi.HomeName("a", "u.x", "t")},
	} {
		if tc.one == tc.other {
			t.Errorf("%s: both are %q", tc.name, tc.one)
		}
	}
	if one, other := vdi.HomeName("ns", "u", "t"), vdi.HomeName("ns", "u", "t"); one != other {
		t.Errorf("the home of a user has two names: %q and %q", one, other)
	}
}

func TestAnyNameIsALabel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		session := rapid.String().Draw(t, "session")
		uid := rapid.String().Draw(t, "uid")
		for _, name := range []string{
			vdi.AssignmentName(session, types.UID(uid)),
			vdi.HomeName(session, uid, session),
		} {
			// RFC 1035, as names of Services: the strictest rule.
			if errs := validation.IsDNS1035Label(name); len(errs) > 0 {
				t.Fatalf("%q: %v", name, errs)
			}
		}
	})
}

func TestOtherUIDOtherName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		session := rapid.String().Draw(t, "session")
		uids := rapid.SliceOfNDistinct(rapid.String(), 2, 2, rapid.ID[string]).Draw(t, "uids")
		one := vdi.AssignmentName(session, types.UID(uids[0]))
		if other := vdi.AssignmentName(session, types.UID(uids[1])); one == other {
			t.Fatalf("sessions of UIDs %q both get %q", uids, one)
		}
	})
}
