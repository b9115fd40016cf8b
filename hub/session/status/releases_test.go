package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestConfirmStopped(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.ReleasingAt(sessiontest.Here, 3), sessiontest.ReleasingAt(sessiontest.Elsewhere, 4))
	s.Status.Endpoint = &v1alpha1.SessionEndpoint{URL: "https://url"}
	ConfirmStopped(s, sessiontest.Here, 4)
	want := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.ReleasingAt(sessiontest.Elsewhere, 4))
	want.Status.Endpoint = s.Status.Endpoint
	if diff := cmp.Diff(want.Status, s.Status); diff != "" {
		t.Errorf("an older stop (-want +got):\n%s", diff)
	}
	ConfirmStopped(s, sessiontest.Here, 5)
	if diff := cmp.Diff(sessiontest.With(sessiontest.ReleasingAt(sessiontest.Elsewhere, 4)).Status, s.Status); diff != "" {
		t.Errorf("the placement's stop (-want +got):\n%s", diff)
	}
	ConfirmStopped(s, sessiontest.Elsewhere, 9)
	if len(Outstanding(s)) != 0 {
		t.Errorf("still outstanding: %v", Outstanding(s))
	}
}
