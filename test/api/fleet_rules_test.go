package api

import "strings"

// fleetCases returns the cases of members, homes, assignments and policies.
func fleetCases() []ruleCase {
	var cases []ruleCase
	for _, kind := range []struct {
		plural string
		cases  []ruleCase
	}{
		{"memberclusters", memberCases},
		{"vdihomes", homeCases},
		{"sessionassignments", assignmentCases},
		{"placementpolicies", policyCases},
	} {
		for _, c := range kind.cases {
			c.plural = kind.plural
			cases = append(cases, c)
		}
	}
	return cases
}

var memberCases = []ruleCase{
	{path: "(root)", name: "a name with a dot", good: `metadata: {name: eu-west-1}`, bad: `metadata: {name: eu.west}`},
	{path: "(root)", name: "a name too long", good: `metadata: {name: ` + strings.Repeat("a", 63) + `}`,
		bad: `metadata: {name: ` + strings.Repeat("a", 64) + `}`},
	{path: "spec.region", name: "a space", good: `spec: {region: EU_west.1}`, bad: `spec: {region: eu west}`},
	{path: "spec.zone", name: "a mark at the end", good: `spec: {zone: eu-west-1a}`, bad: `spec: {zone: eu-west-}`},
	{path: "spec.ingressDomain", name: "a URL", good: `spec: {ingressDomain: vdi.example.com}`, bad: `spec: {ingressDomain: "https://vdi.example.com"}`},
	{path: "spec.ingressDomain", name: "a wildcard", good: `spec: {ingressDomain: localhost}`, bad: `spec: {ingressDomain: "*.example.com"}`},
	{path: "spec.taints", name: "an effect that members' taints have not", good: `spec: {taints: [{key: gpu, effect: NoSchedule}]}`,
		bad: `spec: {taints: [{key: gpu, effect: NoExecute}]}`},
}

var policyCases = []ruleCase{
	{path: "spec.overflow[].clusterLabels", name: "a key that is no label", good: `spec: {overflow: [{clusterLabels: {example.com/tier: ""}}, {}]}`,
		bad: `spec: {overflow: [{clusterLabels: {"a tier": gold}}]}`},
	{path: "spec.overflow[].clusterLabels", name: "a value that is no label's", good: nest("spec.overflow[].clusterLabels.tier", strings.Repeat("a", 63)),
		bad: nest("spec.overflow[].clusterLabels.tier", strings.Repeat("a", 64))},
}

var homeCases = []ruleCase{
	{path: "spec.user", name: "another user", stored: `{}`, good: `spec: {user: alice@example.com}`, bad: `spec: {user: bob@example.com}`},
	{path: "spec.template", name: "another template", stored: `{}`, good: `spec: {template: developer}`, bad: `spec: {template: browser}`},
	{path: "spec", name: "another member", stored: `{}`, good: `spec: {clusterName: us-east, generation: 2}`, bad: `spec: {clusterName: us-east}`},
	{path: "spec", name: "another cluster of that name", stored: `{}`, good: `spec: {clusterUID: uid-1}`, bad: `spec: {clusterUID: uid-2}`},
	{path: "spec", name: "another claim", stored: `{}`, good: `spec: {claimName: other, generation: 2}`, bad: `spec: {claimName: other}`},
	{path: "spec", name: "a generation that falls", stored: `spec: {generation: 3}`, good: `spec: {generation: 4}`, bad: `spec: {generation: 2}`},
	{path: "spec", name: "a size of nothing", good: `spec: {size: 1}`, bad: `spec: {size: 0}`},
	{path: "spec", name: "a smaller size", stored: `spec: {size: 20Gi}`, good: `spec: {size: 20480Mi}`, bad: `spec: {size: 19Gi}`},
	{path: "spec", name: "a size that is removed", stored: `spec: {size: 20Gi}`, good: `spec: {size: 30Gi}`, bad: `spec: {size: null}`},
}

var assignmentCases = []ruleCase{
	{path: "(root)", name: "another session", stored: `{}`,
		good: `spec: {session: {uid: uid-1}}`, bad: `spec: {session: {uid: uid-2}}`},
	{path: "(root)", name: "an epoch that falls", stored: `{}`, good: `spec: {epoch: 4}`, bad: `spec: {epoch: 2}`},
	{path: "spec.desktop.env[].name", name: "a dash", good: `spec: {desktop: {env: [{name: LAUNCH_URL}]}}`,
		bad: `spec: {desktop: {env: [{name: LAUNCH-URL}]}}`},
}
