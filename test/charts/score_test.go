package charts

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// excused are accepted findings, each with its reason.
var excused = []string{
	"CPU limit is not set",                          // throttling would delay the renewal and the granting of leases
	"ImagePullPolicy is not set to Always",          // kind load, and registries that are down; tags are versions
	"The services selector does not match any pods", // the replica that leads puts the label on its Pod itself
}

func TestAScannerFindsNothingToFix(t *testing.T) {
	if testing.Short() {
		t.Skip("building kube-score takes half a minute")
	}
	t.Parallel()
	for _, v := range variants {
		if strings.HasSuffix(v.name, "-least") {
			continue // omits optional parts
		}
		for _, finding := range scan(t, v.manifest(t), excused) {
			t.Errorf("%s: %s", v.name, finding)
		}
	}
}

// scan returns the findings of kube-score that are not excused.
func scan(t *testing.T, manifest string, excused []string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t, "kube-score", "bin/kube-score"), "score", "--output-format", "ci", "-")
	cmd.Stdin = strings.NewReader(manifest)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run() // fails if there are findings
	if !strings.Contains(out.String(), "apps/v1/Deployment") {
		t.Fatalf("kube-score has checked no Deployment: %v: %s%s", err, out.String(), problems.String())
	}
	var findings []string
	for _, line := range strings.Split(out.String(), "\n") {
		isExcused := slices.ContainsFunc(excused, func(excuse string) bool { return strings.Contains(line, excuse) })
		if (strings.HasPrefix(line, "[CRITICAL]") || strings.HasPrefix(line, "[WARNING]")) && !isExcused {
			findings = append(findings, line)
		}
	}
	return findings
}
