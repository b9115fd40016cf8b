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
		{"memberclusters", nodeGroupCases},
		{"memberclusters", bufferCases},
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

// group returns a patch of a MemberCluster with one node group, of a NodePool unless the fields name
// another source.
func group(fields string) string {
	if !strings.Contains(fields, "karpenterNodePool") && !strings.Contains(fields, "source") {
		fields = "karpenterNodePool: desktops, " + fields
	}
	if !strings.Contains(fields, "name:") {
		fields = "name: desktops, " + fields
	}
	return "spec: {nodeGroups: [{" + strings.ReplaceAll(fields, "source: none, ", "") + "}]}"
}

var nodeGroupCases = []ruleCase{
	{path: "spec.nodeGroups[]", name: "two sources", good: group(`karpenterNodePool: desktops`), bad: group(`karpenterNodePool: desktops, clusterAutoscalerGroup: desktops`)},
	{path: "spec.nodeGroups[]", name: "no limit and no source", good: group(`source: none, maxNodes: 0, node: {labels: {pool: desktops}}`),
		bad: group(`source: none, node: {labels: {pool: desktops}}`)},
	{path: "spec.nodeGroups[]", name: "no labels without a NodePool", good: group(`source: none, clusterAutoscalerGroup: desktops, node: {labels: {pool: desktops}}`),
		bad: group(`source: none, clusterAutoscalerGroup: desktops`)},
	{path: "spec.nodeGroups[]", name: "empty labels without a NodePool", good: group(`source: none, maxNodes: 10000, node: {labels: {pool: desktops}}`),
		bad: group(`source: none, maxNodes: 10000, node: {labels: {}}`)},
	{path: "spec.nodeGroups[].name", name: "a dot", good: group(`name: gpu-a100`), bad: group(`name: gpu.a100`)},
	{path: "spec.nodeGroups[].karpenterNodePool", name: "what no object can be named", good: group(`karpenterNodePool: desktops.large`), bad: group(`karpenterNodePool: Large desktops`)},
	{path: "spec.nodeGroups[].clusterAutoscalerGroup", name: "a space", good: group(`source: none, clusterAutoscalerGroup: "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/Pool_1", node: {labels: {pool: desktops}}`),
		bad: group(`source: none, clusterAutoscalerGroup: "pool 1", node: {labels: {pool: desktops}}`)},
	{path: "spec.nodeGroups[].provisioningTime", name: "a number without a unit", good: group(`provisioningTime: 2m`), bad: group(`provisioningTime: "120"`)},
	{path: "spec.nodeGroups[].provisioningTime", name: "too short", good: group(`provisioningTime: 10s`), bad: group(`provisioningTime: 9999ms`)},
	{path: "spec.nodeGroups[].provisioningTime", name: "too long", good: group(`provisioningTime: 0h60m`), bad: group(`provisioningTime: 1h0m1s`)},
	{path: "spec.nodeGroups[].node.allocatable", name: "no pods", good: group(`node: {allocatable: {cpu: 15800m, memory: 60Gi, pods: "110", nvidia.com/gpu: "1"}}`),
		bad: group(`node: {allocatable: {cpu: 15800m, memory: 60Gi}}`)},
	{path: "spec.nodeGroups[].node.allocatable", name: "an unknown resource", good: group(`node: {allocatable: {pods: "110", hugepages-2Mi: "0", ephemeral-storage: 100G}}`),
		bad: group(`node: {allocatable: {pods: "110", gpu: "1"}}`)},
	{path: "spec.nodeGroups[].node.allocatable{}", name: "prose", good: group(`node: {allocatable: {pods: "110", cpu: "1.5"}}`), bad: group(`node: {allocatable: {pods: many}}`)},
	{path: "spec.nodeGroups[].node.allocatable{}", name: "a negative quantity", good: group(`node: {allocatable: {pods: "0"}}`), bad: group(`node: {allocatable: {pods: "-1"}}`)},
	{path: "spec.nodeGroups[].node.allocatable{}", name: "a quantity that is too large", good: group(`node: {allocatable: {pods: "110", memory: 8Ei}}`), bad: group(`node: {allocatable: {pods: "110", memory: 1000E}}`)},
	// Whoever reads it would compute all its digits.
	{path: "spec.nodeGroups[].node.allocatable{}", name: "zero with a huge exponent", good: group(`node: {allocatable: {pods: "110", memory: 1E}}`), bad: group(`node: {allocatable: {pods: "110", memory: "0e99999999"}}`)},
	{path: "spec.nodeGroups[].node.labels", name: "a key that is no label", good: group(`node: {labels: {example.com/pool: ""}}`), bad: group(`node: {labels: {"a pool": desktops}}`)},
	{path: "spec.nodeGroups[].node.labels", name: "a value that is no label's", good: group(`node: {labels: {pool: ` + strings.Repeat("a", 63) + `}}`),
		bad: group(`node: {labels: {pool: ` + strings.Repeat("a", 64) + `}}`)},
	{path: "spec.nodeGroups[].node.taints", name: "an effect that is none", good: group(`node: {taints: [{key: gpu, effect: NoExecute}]}`), bad: group(`node: {taints: [{key: gpu, effect: Never}]}`)},
	{path: "status.nodeGroups[].provisioningTime", name: "days", ofStatus: true, stored: `{}`,
		good: `status: {nodeGroups: [{name: a, state: Available, provisioningTime: 1m35s}]}`, bad: `status: {nodeGroups: [{name: a, state: Available, provisioningTime: 2d}]}`},
}

// buffered returns a patch of a MemberCluster with a buffer that has one period, with these fields besides its
// slots.
func buffered(period string) string {
	return "spec: {buffers: [{template: browser, schedule: [{slots: 60, " + period + "}]}]}"
}

var bufferCases = []ruleCase{
	{path: "spec.buffers[].template", name: "what no template can be named", good: `spec: {buffers: [{template: browser-2, slots: 5}]}`, bad: `spec: {buffers: [{template: browser.2, slots: 5}]}`},
	{path: "spec.buffers[].schedule[]", name: "a period of no time", good: buffered(`from: "00:00", to: "24:00"`), bad: buffered(`from: "07:30", to: "07:30"`)},
	{path: "spec.buffers[].schedule[].from", name: "an hour that is none", good: buffered(`from: "23:59", to: "00:00"`), bad: buffered(`from: "24:00", to: "09:30"`)},
	{path: "spec.buffers[].schedule[].from", name: "an hour without a zero", good: buffered(`from: "07:30", to: "09:30"`), bad: buffered(`from: "7:30", to: "09:30"`)},
	{path: "spec.buffers[].schedule[].to", name: "a minute that is none", good: buffered(`from: "07:30", to: "09:59"`), bad: buffered(`from: "07:30", to: "09:60"`)},
	{path: "spec.buffers[].schedule[].to", name: "later than the day", good: buffered(`from: "07:30", to: "24:00"`), bad: buffered(`from: "07:30", to: "24:01"`)},
	{path: "spec.buffers[].schedule[].timeZone", name: "an abbreviation that is none", good: buffered(`from: "07:30", to: "09:30", timeZone: America/Argentina/Buenos_Aires`), bad: buffered(`from: "07:30", to: "09:30", timeZone: CEST`)},
	{path: "spec.buffers[].schedule[].timeZone", name: "an offset", good: buffered(`from: "07:30", to: "09:30", timeZone: Etc/GMT+1`), bad: buffered(`from: "07:30", to: "09:30", timeZone: "+01:00"`)},
	{path: "spec.buffers[].schedule[].timeZone", name: "that of the hub's machine", good: buffered(`from: "07:30", to: "09:30", timeZone: UTC`), bad: buffered(`from: "07:30", to: "09:30", timeZone: Local`)},
}

var policyCases = []ruleCase{
	{path: "spec.maxProvisioningTime", name: "too long", good: `spec: {maxProvisioningTime: 60m}`, bad: `spec: {maxProvisioningTime: 1h0m1s}`},
	{path: "spec.maxProvisioningTime", name: "very long", good: `spec: {maxProvisioningTime: 0s}`, bad: `spec: {maxProvisioningTime: 999999h}`},
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
