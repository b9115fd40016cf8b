package observe_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestSinceWhenADesktopIsIdle(t *testing.T) {
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	first, later := metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Minute))
	for _, c := range []struct {
		name    string
		stored  *metav1.Time
		use     observe.Use
		stopped bool
		want    *metav1.Time
	}{
		{"nothing is reported yet", nil, observe.Use{}, false, nil},
		{"nothing is reported to this process yet", &first, observe.Use{}, false, &first},
		{"in use", &first, observe.Use{Known: true}, false, nil},
		{"idle", nil, observe.Use{Known: true, Since: noon.Add(300 * time.Millisecond)}, false, &first},
		{"idle still, computed again", &first, observe.Use{Known: true, Since: noon.Add(time.Second)}, false, &first},
		{"idle again", &first, observe.Use{Known: true, Since: noon.Add(time.Minute)}, false, &later},
		{"stopped", &first, observe.Use{Known: true, Since: noon}, true, nil},
	} {
		s := api.SessionAssignmentStatus{IdleSince: c.stored}
		observe.ShowIdle(&s, c.use, !c.stopped)
		if !s.IdleSince.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, s.IdleSince, c.want)
		}
	}
}
