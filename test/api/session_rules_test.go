package api

import "strings"

const (
	placed = `status: {epoch: 3, placement: {clusterName: eu-west, clusterUID: uid-1, epoch: 3, placementTime: "2026-01-01T00:00:00Z"}}`
	raised = `spec: {resources: {cpu: 1500m, memory: 4Gi}}`
)

// placedWith returns a session that is placed with these resources.
func placedWith(resources string) string {
	return "spec: {resources: " + resources + "}\n" + placed
}

func sessionCases() []ruleCase {
	cases := []ruleCase{
		{path: "spec.user", name: "a space", good: `spec: {user: "oidc:alice+vdi@example.com"}`, bad: `spec: {user: alice smith}`},
		{path: "spec.user", name: "a quote", good: `spec: {user: "system:serviceaccount:desktops:bot"}`, bad: `spec: {user: "alice'"}`},
		{path: "spec.user", name: "a mark at the end", good: `spec: {user: ` + strings.Repeat("a", 241) + `@example.com}`, bad: `spec: {user: alice@}`},
		{path: "spec.user", name: "another user", stored: `{}`, good: `spec: {user: alice@example.com}`, bad: `spec: {user: bob@example.com}`},
		{path: "spec.template", name: "upper case", good: `spec: {template: a-1}`, bad: `spec: {template: Browser}`},
		{path: "spec.template", name: "a dot", good: `spec: {template: ` + strings.Repeat("a", 63) + `}`, bad: `spec: {template: a.b}`},
		{path: "spec.template", name: "another template", stored: `{}`, good: `spec: {template: browser}`, bad: `spec: {template: developer}`},
		{path: "spec.placement.clusterTolerations", name: "an operator of another language",
			good: `spec: {placement: {clusterTolerations: [{operator: Exists}]}}`,
			bad:  `spec: {placement: {clusterTolerations: [{key: gpu, operator: In}]}}`},
		{path: "spec.placement.clusterTolerations", name: "an effect that members' taints have not",
			good: `spec: {placement: {clusterTolerations: [{key: gpu, effect: NoSchedule}]}}`,
			bad:  `spec: {placement: {clusterTolerations: [{key: gpu, effect: NoExecute}]}}`},
		{path: "(root)", name: "an epoch that falls", ofStatus: true, stored: `status: {epoch: 3}`,
			good: `status: {epoch: 4}`, bad: `status: {epoch: 2}`},
		{path: "(root)", name: "an epoch that is removed", ofStatus: true, stored: `status: {epoch: 3, phase: Running}`,
			good: `status: {phase: Pending}`, bad: `status: {epoch: null}`},
		{path: "(root)", name: "a status that is wiped", ofStatus: true, stored: `status: {epoch: 3}`,
			good: `status: {epoch: 3}`, bad: `status: null`},
	}
	cases = append(cases, placedCases()...)
	for i := range cases {
		cases[i].plural = "vdisessions"
	}
	return cases
}

// placedCases returns the cases of resources, which don't change once the session is placed.
func placedCases() []ruleCase {
	cpu := placedWith(`{cpu: 1500m, memory: 4Gi, nvidia.com/gpu: 1}`)
	return []ruleCase{
		{path: "(root)", name: "placed, more of a resource", stored: cpu,
			good: `spec: {timeout: 2h}`, bad: `spec: {resources: {cpu: "2"}}`},
		{path: "(root)", name: "placed, one resource more", stored: cpu,
			good: `spec: {resources: {cpu: "1.5"}}`, bad: `spec: {resources: {ephemeral-storage: 1Gi}}`},
		{path: "(root)", name: "placed, one resource less", stored: cpu,
			good: `spec: {resources: {nvidia.com/gpu: "1"}}`, bad: `spec: {resources: {cpu: null}}`},
		{path: "(root)", name: "placed, one resource for another", stored: cpu,
			good: `spec: {resources: {memory: 4096Mi}}`, bad: `spec: {resources: {cpu: null, ephemeral-storage: 1Gi}}`},
		{path: "(root)", name: "placed, no resources any more", stored: cpu,
			good: `spec: {operatingMode: Suspended}`, bad: `spec: {resources: null}`},
		{path: "(root)", name: "placed, resources where there were none", stored: placed,
			good: `spec: {resources: {}}`, bad: raised},
		{path: "(root)", name: "placed, a quantity with a huge exponent", stored: cpu,
			good: `spec: {resources: {cpu: "1500e-3"}}`, bad: `spec: {resources: {cpu: "9e99999999"}}`},
		{path: "(root)", name: "placed, changed in one step with the mode", stored: cpu,
			good: `spec: {operatingMode: Suspended, resources: {cpu: 1500m}}`,
			bad:  `spec: {operatingMode: Suspended, resources: {cpu: 1501m}}`},
	}
}
