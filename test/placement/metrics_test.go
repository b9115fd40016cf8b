package placement

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// counted returns the sum of the series that begin with a prefix.
func counted(metrics, series string) float64 {
	GinkgoHelper()
	sum := 0.0
	for _, line := range strings.Split(metrics, "\n") {
		if !strings.HasPrefix(line, series) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		Expect(err).NotTo(HaveOccurred(), line)
		sum += value
	}
	return sum
}

// byHub returns counted for the hub's metrics.
func byHub(ctx context.Context, series string) float64 {
	GinkgoHelper()
	metrics, err := fleet.Hub.Metrics(ctx, fleet.Hub.Replicas[0])
	Expect(err).NotTo(HaveOccurred())
	return counted(metrics, series)
}

// byAgent returns counted for the metrics of a member's agent.
func byAgent(ctx context.Context, m *harness.Member, series string) float64 {
	GinkgoHelper()
	metrics, err := m.Metrics(ctx)
	Expect(err).NotTo(HaveOccurred())
	return counted(metrics, series)
}

// refusals returns the counts of refusals by the members' agents and by the hub.
func refusals(ctx context.Context) string {
	GinkgoHelper()
	var out []string
	for _, m := range fleet.Members {
		out = append(out, fmt.Sprintf("%s %v", m.Name, byAgent(ctx, m, "vdi_agent_assignment_refused_total")))
	}
	return fmt.Sprintf("hub %v, %s", byHub(ctx, `vdi_hub_placements_total{result="refused"}`), strings.Join(out, ", "))
}
