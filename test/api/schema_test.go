package api

import (
	"fmt"
	"strings"
)

// schemaCases returns what the schema itself rejects, and with which message.
func schemaCases() []ruleCase {
	var cases []ruleCase
	for _, kind := range []struct {
		plural string
		cases  []ruleCase
	}{
		{"vdisessions", sessionSchemaCases},
		{"vditemplates", templateSchemaCases},
		{"memberclusters", memberSchemaCases},
		{"placementpolicies", policySchemaCases},
		{"accesstickets", []ruleCase{
			{path: "spec.access", name: "access that is none", good: `spec: {access: Console}`, bad: `spec: {access: Everything}`},
			{path: "spec.user", name: "no user", good: `spec: {user: a}`, bad: `spec: {user: ""}`},
			{path: "spec.groups", name: "a group twice", good: `spec: {groups: [a, b]}`, bad: `spec: {groups: [a, a]}`},
			{path: "spec.groups", name: "65 groups", good: groups(64), bad: groups(65)},
		}},
		{"sessionassignments", []ruleCase{
			{path: "spec.epoch", name: "an epoch before the first", good: `spec: {epoch: 1}`, bad: `spec: {epoch: 0}`},
			{path: "spec.session.uid", name: "no UID", good: `spec: {session: {uid: u}}`, bad: `spec: {session: {uid: ""}}`},
		}},
	} {
		for _, c := range kind.cases {
			c.plural, c.schema = kind.plural, true
			cases = append(cases, c)
		}
	}
	return cases
}

var sessionSchemaCases = []ruleCase{
	{path: "spec.user", name: "null", good: `spec: {user: a}`, bad: `spec: {user: null}`},
	{path: "spec.user", name: "an empty user", good: `spec: {user: "7"}`, bad: `spec: {user: ""}`},
	{path: "spec.user", name: "254 characters", good: `spec: {user: ` + strings.Repeat("a", 253) + `}`, bad: `spec: {user: ` + strings.Repeat("a", 254) + `}`},
	{path: "spec.template", name: "no template", good: `spec: {template: a}`, bad: `spec: {template: null}`},
	{path: "spec.template", name: "64 characters", good: `spec: {template: a}`, bad: `spec: {template: ` + strings.Repeat("a", 64) + `}`},
	{path: "spec.resources", name: "a malformed quantity", good: `spec: {resources: {cpu: 2k}}`, bad: `spec: {resources: {cpu: two}}`},
	{path: "spec.resources", name: "11 resources", good: nest("spec.resources", someResources(10)), bad: nest("spec.resources", someResources(11))},
	{path: "spec.timeout", name: "33 characters", good: `spec: {timeout: 000001h}`, bad: `spec: {timeout: ` + strings.Repeat("0", 32) + `h}`},
	{path: "spec.operatingMode", name: "a mode that is none", good: `spec: {operatingMode: Suspended}`, bad: `spec: {operatingMode: Paused}`},
	{path: "spec.failover.mode", name: "a mode that is none", good: `spec: {failover: {mode: Hold}}`, bad: `spec: {failover: {mode: Never}}`},
	{path: "spec.placement.requiredRegions", name: "a region twice", good: `spec: {placement: {requiredRegions: [a, b]}}`, bad: `spec: {placement: {requiredRegions: [a, a]}}`},
	{path: "spec.placement.requiredRegions", name: "an empty region", good: `spec: {placement: {requiredRegions: [a]}}`, bad: `spec: {placement: {requiredRegions: [""]}}`},
	{path: "spec.placement.priority", name: "a priority above all", good: `spec: {placement: {priority: 1000}}`, bad: `spec: {placement: {priority: 1001}}`},
	{path: "status.phase", name: "a phase that is none", ofStatus: true, stored: `{}`, good: `status: {phase: Running}`, bad: `status: {phase: Ready}`},
	{path: "status.placement.epoch", name: "an epoch before the first", ofStatus: true, stored: placed,
		good: `status: {epoch: 4, placement: {epoch: 4}}`, bad: `status: {placement: {epoch: 0}}`},
}

var templateSchemaCases = []ruleCase{
	{path: "spec.image", name: "no image", good: `spec: {image: a}`, bad: `spec: {image: null}`},
	{path: "spec.port", name: "no port", good: `spec: {port: 1}`, bad: `spec: {port: null}`},
	{path: "spec.port", name: "a port too high", good: `spec: {port: 65535}`, bad: `spec: {port: 65536}`},
	{path: "spec.protocol", name: "a protocol that is none", good: `spec: {protocol: HTTPS}`, bad: `spec: {protocol: RDP}`},
	{path: "spec.home.mode", name: "a mode that is none", good: `spec: {home: {mode: None}}`, bad: `spec: {home: {mode: Shared, size: 1Gi}}`},
	{path: "spec.state", name: "a state that is none", good: `spec: {state: Hidden}`, bad: `spec: {state: Gone}`},
	{path: "spec.env", name: "a variable twice", good: `spec: {env: [{name: A}, {name: B}]}`, bad: `spec: {env: [{name: A}, {name: A}]}`},
}

var memberSchemaCases = []ruleCase{
	{path: "spec.region", name: "no region", good: `spec: {region: a}`, bad: `spec: {region: null}`},
	{path: "spec.ingressDomain", name: "no domain", good: `spec: {ingressDomain: a}`, bad: `spec: {ingressDomain: null}`},
	{path: "spec.ingressDomain", name: "a domain too long", good: nest("spec.ingressDomain", domain(180)), bad: nest("spec.ingressDomain", domain(181))},
	{path: "spec.scheduling", name: "a state that is none", good: `spec: {scheduling: Cordoned}`, bad: `spec: {scheduling: Drained}`},
	{path: "spec.weight", name: "a negative weight", good: `spec: {weight: 0}`, bad: `spec: {weight: -1}`},
	{path: "spec.headroomPercent", name: "more than all", good: `spec: {headroomPercent: 100}`, bad: `spec: {headroomPercent: 101}`},
	{path: "spec.fenced", name: "without fields", good: `spec: {fenced: {fingerprint: f, by: alice, at: "2026-01-01T00:00:00Z"}}`,
		bad: `spec: {fenced: {fingerprint: f, by: "", at: "2026-01-01T00:00:00Z"}}`},
	{path: "spec.nodeGroups", name: "33 node groups", good: nodeGroups(32), bad: nodeGroups(33)},
	{path: "spec.nodeGroups", name: "a name twice", good: `spec: {nodeGroups: [{name: a, karpenterNodePool: a}, {name: b, karpenterNodePool: a}]}`,
		bad: `spec: {nodeGroups: [{name: a, karpenterNodePool: a}, {name: a, karpenterNodePool: b}]}`},
	{path: "spec.nodeGroups[].maxNodes", name: "a negative number", good: group(`maxNodes: 0`), bad: group(`maxNodes: -1`)},
	{path: "spec.nodeGroups[].maxNodes", name: "more than 10000", good: group(`maxNodes: 10000`), bad: group(`maxNodes: 10001`)},
	{path: "spec.buffers", name: "65 buffers", good: manyBuffers(64), bad: manyBuffers(65)},
	{path: "spec.buffers", name: "a template twice", good: `spec: {buffers: [{template: a}, {template: b}]}`, bad: `spec: {buffers: [{template: a}, {template: a}]}`},
	{path: "spec.buffers[].slots", name: "a negative number", good: `spec: {buffers: [{template: a, slots: 0}]}`, bad: `spec: {buffers: [{template: a, slots: -1}]}`},
	{path: "spec.buffers[].slots", name: "more than 10000", good: `spec: {buffers: [{template: a, slots: 10000}]}`, bad: `spec: {buffers: [{template: a, slots: 10001}]}`},
	{path: "spec.buffers[].schedule[].slots", name: "no slots", good: buffered(`from: "07:30", to: "09:30"`), bad: buffered(`from: "07:30", to: "09:30", slots: null`)},
	{path: "spec.buffers[].schedule[].days", name: "a day that is none", good: buffered(`from: "07:30", to: "09:30", days: [Mon, Sun]`), bad: buffered(`from: "07:30", to: "09:30", days: [Monday]`)},
	{path: "spec.buffers[].schedule[].days", name: "no day", good: buffered(`from: "07:30", to: "09:30", days: [Mon]`), bad: buffered(`from: "07:30", to: "09:30", days: []`)},
	{path: "spec.buffers[].schedule[].days", name: "a day twice", good: buffered(`from: "07:30", to: "09:30", days: [Mon, Tue]`), bad: buffered(`from: "07:30", to: "09:30", days: [Mon, Mon]`)},
	{path: "status.nodeGroups[].state", name: "a state that is none", ofStatus: true, stored: `{}`,
		good: `status: {growableNodes: 0, nodeGroups: [{name: a, state: Full}]}`, bad: `status: {nodeGroups: [{name: a, state: Ready}]}`},
}

// nodeGroups returns a patch of a MemberCluster with n node groups, each as large as the limits permit.
// groups returns a patch with n groups.
func groups(n int) string { return "spec: {groups: [" + strings.Join(numbered("g", n), ", ") + "]}" }

func nodeGroups(n int) string {
	labels, resources, taints := make([]string, 32), []string{`pods: "110"`}, make([]string, 16)
	for i := range labels {
		labels[i] = fmt.Sprintf("example.com/label-%02d: %s", i, strings.Repeat("v", 63))
	}
	for i := range 15 {
		resources = append(resources, fmt.Sprintf(`example.com/r%d: "1234567890123456789"`, i))
	}
	for i := range taints {
		taints[i] = fmt.Sprintf("{key: example.com/t%d, value: v, effect: NoSchedule}", i)
	}
	groups := make([]string, n)
	for i := range groups {
		groups[i] = fmt.Sprintf("{name: g%d, maxNodes: 10, provisioningTime: 5m, node: {labels: {%s}, allocatable: {%s}, taints: [%s]}}",
			i, strings.Join(labels, ", "), strings.Join(resources, ", "), strings.Join(taints, ", "))
	}
	return "spec: {nodeGroups: [" + strings.Join(groups, ", ") + "]}"
}

// manyBuffers returns a patch of a MemberCluster with n buffers, each as large as the limits permit.
func manyBuffers(n int) string {
	const period = `{days: [Mon, Tue, Wed, Thu, Fri, Sat, Sun], from: "07:30", to: "09:30", timeZone: America/Argentina/Buenos_Aires, slots: 10000}`
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("{template: t%d, slots: 10000, schedule: [%s]}", i, strings.Repeat(period+", ", 15)+period)
	}
	return "spec: {buffers: [" + strings.Join(all, ", ") + "]}"
}

var policySchemaCases = []ruleCase{
	{path: "spec.strategy", name: "a strategy that is none", good: `spec: {strategy: BinPack}`, bad: `spec: {strategy: Random}`},
	{path: "spec.match.groups", name: "an empty group", good: `spec: {match: {groups: [staff]}}`, bad: `spec: {match: {groups: [""]}}`},
	{path: "spec.match.groups", name: "a group twice", good: `spec: {match: {groups: [a, b]}}`, bad: `spec: {match: {groups: [a, a]}}`},
	{path: "spec.overflow", name: "17 tiers", good: `spec: {overflow: [` + strings.Repeat("{}, ", 15) + `{}]}`, bad: `spec: {overflow: [` + strings.Repeat("{}, ", 16) + `{}]}`},
	{path: "spec.overflow[].capacity", name: "a kind that is none", good: `spec: {overflow: [{regions: [a], capacity: Free}, {capacity: Any}]}`, bad: `spec: {overflow: [{capacity: Growable}]}`},
	{path: "spec.overflow[].regions", name: "a region twice", good: `spec: {overflow: [{regions: [a, b]}]}`, bad: `spec: {overflow: [{regions: [a, a]}]}`},
	{path: "spec.overflow[].regions", name: "an empty region", good: `spec: {overflow: [{regions: [a]}]}`, bad: `spec: {overflow: [{regions: [""]}]}`},
	{path: "spec.headroomPercent", name: "all but nothing", good: `spec: {headroomPercent: 90}`, bad: `spec: {headroomPercent: 91}`},
	{path: "spec.headroomPercent", name: "a negative share", good: `spec: {headroomPercent: 0}`, bad: `spec: {headroomPercent: -1}`},
	{path: "spec.sessionCaps.total", name: "a negative cap", good: `spec: {sessionCaps: {total: 0}}`, bad: `spec: {sessionCaps: {total: -1}}`},
	{path: "spec.sessionCaps.perUser", name: "a negative cap", good: `spec: {sessionCaps: {perUser: 0}}`, bad: `spec: {sessionCaps: {perUser: -1}}`},
	{path: "spec.sessionCaps.perNamespace", name: "a negative cap", good: `spec: {sessionCaps: {perNamespace: 0}}`, bad: `spec: {sessionCaps: {perNamespace: -1}}`},
	{path: "spec.sessionCaps.perCluster", name: "a negative cap", good: `spec: {sessionCaps: {perCluster: 0}}`, bad: `spec: {sessionCaps: {perCluster: -1}}`},
}

// someResources returns n extended resources.
func someResources(n int) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf("example.com/r%d: 1", i)
	}
	return "{" + strings.Join(entries, ", ") + "}"
}

// domain returns a domain of n characters in labels of at most 59.
func domain(n int) string {
	return strings.Repeat(strings.Repeat("a", 59)+".", 4)[:n-1] + "a"
}
