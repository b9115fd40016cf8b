package api

import (
	"context"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// shown are objects in the most frequent states, by plural. Their ages are not compared.
var shown = map[string][]string{
	"vdisessions": {
		`{metadata: {name: alice-browser}, status: {phase: Running, epoch: 1, url: "https://alice-browser-0123456789.eu.example.com/",
		  expirationTime: "2036-01-01T08:00:00Z", resources: {cpu: "1"},
		  placement: {clusterName: eu-west, clusterUID: uid-1, region: eu-west, epoch: 1, placementTime: "2026-01-01T00:00:00Z"}}}`,
		`{metadata: {name: frank-gpu}, spec: {user: frank@example.com, template: gpu},
		  status: {phase: Pending, message: "3 clusters: 2 lack nvidia.com/gpu, 1 cordoned"}}`,
		`{metadata: {name: new}, spec: {user: new@example.com}}`,
	},
	"vditemplates": {
		`{metadata: {name: browser}, spec: {title: Secure browser}, status: {revision: 0a1b2c3d, availableClusters: 3, sessions: 12}}`,
		`{metadata: {name: new}, spec: {home: {mode: PerUser, size: 1Gi}, state: Hidden}}`,
	},
	"memberclusters": {
		`{metadata: {name: eu-west}, status: {sessions: 12, nodes: 20, agentVersion: v0.1.0,
		  conditions: [{type: Ready, status: "True", reason: Connected, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`,
		`{metadata: {name: elastic}, status: {sessions: 12, nodes: 2, growableNodes: 8, nodeGroups: [{name: a, growable: 8, state: Available}, {name: b, growable: 0, state: Full}]}}`,
		`{metadata: {name: new}, spec: {region: us-east, scheduling: Cordoned}}`,
	},
	"placementpolicies": {
		`{metadata: {name: default}, status: {sessions: 12, placed: 9, waiting: 2, elsewhere: 4}}`,
		`{metadata: {name: gpu}, spec: {strategy: BinPack, precedence: 10}}`,
	},
	"placementreviews": {
		`{metadata: {name: where}, status: {reviewTime: "2026-01-01T00:00:00Z", placed: 1, reason: Placed, message: "eu-west: 7 slots left, the only one of 3 that fits"}}`,
		`{metadata: {name: hundred}, spec: {count: 100}}`,
	},
	"vdihomes": {
		`{metadata: {name: home-developer-0123456789}, spec: {size: 20Gi}, status: {mountedBy: alice-developer}}`,
	},
	"sessionassignments": {
		`{metadata: {name: alice-browser-0123456789}, status: {nodeName: node-1,
		  conditions: [{type: PodReady, status: "False", reason: ImagePullFailed, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`,
	},
}

var _ = Describe("kubectl", func() {
	It("prints what testdata/tables.txt shows", func(ctx context.Context) {
		var b strings.Builder
		for _, plural := range []string{"vdisessions", "vditemplates", "memberclusters", "placementpolicies", "placementreviews", "vdihomes", "sessionassignments"} {
			for _, patch := range shown[plural] {
				store(ctx, plural, build(plural, patch))
			}
			for _, args := range [][]string{{"get", plural}, {"get", plural, "-o", "wide"}} {
				if client := parse(valid[plural])["metadata"].(map[string]any)["namespace"]; client != nil {
					args = append(args, "-n", "desktops")
				}
				out, err := cluster.Kubectl(ctx, args...)
				Expect(err).NotTo(HaveOccurred())
				b.WriteString("$ kubectl " + strings.Join(args, " ") + "\n" + withoutAges(out) + "\n")
			}
		}
		expectGolden("tables.txt", b.String())
	})

	It("accepts the short names and the category", func(ctx context.Context) {
		store(ctx, "vdisessions", build("vdisessions"))
		store(ctx, "vdihomes", build("vdihomes"))
		for _, name := range []string{"vdis", "vdit", "vdih", "vdimc", "vdipp", "vdipr", "vdia"} {
			_, err := cluster.Kubectl(ctx, "get", name, "-n", "desktops")
			Expect(err).NotTo(HaveOccurred())
		}
		out, err := cluster.Kubectl(ctx, "get", "vdi", "-n", "desktops", "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Fields(out)).To(ConsistOf("vdisession.vdi.kasm.io/alice", "vdihome.vdi.kasm.io/home-alice"))
	})

	It("prints a refusal in one readable line", func(ctx context.Context) {
		_, err := cluster.Kubectl(ctx, "apply", "-f", "testdata/bad-session.yaml")
		Expect(err).To(MatchError(ContainSubstring(
			`The VDISession "alice" is invalid: spec.user: Invalid value: "alice smith": ` +
				`must consist of letters, digits and -_.@:+/#|, and begin and end with a letter or digit`)))
	})
})

// withoutAges empties the column AGE, the only one that varies. No age is wider than its
// title.
func withoutAges(table string) string {
	lines := strings.Split(strings.TrimRight(table, "\n"), "\n")
	title := regexp.MustCompile(`\bAGE\b`).FindStringIndex(lines[0])
	Expect(title).NotTo(BeNil(), table)
	for i, line := range lines {
		if i > 0 {
			line = line[:title[0]] + "   " + line[min(title[1], len(line)):]
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}
