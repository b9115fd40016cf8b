package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

func TestDeletionIsFoundInTheAuditLog(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	// A watch may show the effect of a write before the write is answered.
	const slow = 30 * time.Millisecond
	line := func(ms int, verb, user, subresource string) string {
		came := began.Add(time.Duration(ms) * time.Millisecond)
		return fmt.Sprintf(`{"verb":%q,"requestReceivedTimestamp":%q,"stageTimestamp":%q,"user":{"username":%q},"objectRef":{"resource":"pods","subresource":%q,"namespace":"ns","name":"p"},"responseStatus":{"code":200}}`,
			verb, came.Format(time.RFC3339Nano), came.Add(slow).Format(time.RFC3339Nano), user, subresource)
	}
	for name, tc := range map[string]struct {
		log  []string
		want bool
	}{
		"the agent": {[]string{line(0, "create", "vdi-agent", ""), line(50, "delete", "vdi-agent", ""), line(60, "delete", "kwok", "")}, true},
		"the simulated kubelet, twice": {[]string{
			line(-90, "create", "vdi-agent", ""), line(-50, "delete", "vdi-agent", ""),
			line(0, "create", "vdi-agent", ""), line(1, "delete", "kwok", ""), line(20, "delete", "kwok", ""),
		}, false},
		"the agent, later": {[]string{line(0, "create", "vdi-agent", ""), line(500, "delete", "vdi-agent", "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			if err := os.WriteFile(path, []byte(strings.Join(tc.log, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := deletionRequested(path, checker.PodState{Namespace: "ns", Name: "p"}, began.Add(10*time.Millisecond), began.Add(100*time.Millisecond))
			if err != nil || got != tc.want {
				t.Errorf("deletion requested: %t, %v; want %t", got, err, tc.want)
			}
		})
	}
}
