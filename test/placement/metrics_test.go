package placement

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// counted is the sum of the series of a process that begin so.
func counted(ctx context.Context, address, series string) float64 {
	GinkgoHelper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	Expect(err).NotTo(HaveOccurred())
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, line := range strings.Split(string(body), "\n") {
		if !strings.HasPrefix(line, series) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		Expect(err).NotTo(HaveOccurred(), line)
		sum += value
	}
	return sum
}

// byHub is counted of the hub.
func byHub(ctx context.Context, series string) float64 {
	GinkgoHelper()
	return counted(ctx, fleet.Hub.Replicas[0].MetricsAddr, series)
}

// refusals that the members' agents have made so far.
func refusals(ctx context.Context) string {
	GinkgoHelper()
	var out []string
	for _, m := range fleet.Members {
		out = append(out, fmt.Sprintf("%s %v", m.Name, counted(ctx, m.Agent.MetricsAddr, "vdi_agent_assignment_refused_total")))
	}
	return fmt.Sprintf("hub %v, %s", byHub(ctx, `vdi_hub_placements_total{result="refused"}`), strings.Join(out, ", "))
}
