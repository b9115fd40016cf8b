package api

import "strings"

func templateCases() []ruleCase {
	cases := []ruleCase{
		{path: "(root)", name: "a name with a dot", good: `metadata: {name: chrome-1}`, bad: `metadata: {name: chrome.1}`},
		{path: "(root)", name: "a name too long", good: `metadata: {name: ` + strings.Repeat("a", 63) + `}`,
			bad: `metadata: {name: ` + strings.Repeat("a", 64) + `}`},
		{path: "spec.image", name: "a space", good: `spec: {image: "registry.example.com:5000/a/b@sha256:0123"}`, bad: `spec: {image: "chrome latest"}`},
		{path: "spec.image", name: "a scheme without a host", good: `spec: {image: chrome}`, bad: `spec: {image: "://chrome"}`},
		{path: "spec.path", name: "no slash at the beginning", good: `spec: {path: /vnc.html}`, bad: `spec: {path: vnc.html}`},
		{path: "spec.path", name: "a query", good: `spec: {path: /a/~b_c/}`, bad: `spec: {path: "/vnc.html?autoconnect=1"}`},
		{path: "spec.access.username", name: "a colon, which Basic authentication ends names with", good: `spec: {access: {username: kasm_user}}`,
			bad: `spec: {access: {username: "kasm:user"}}`},
		{path: "spec.env[].name", name: "a dash", good: `spec: {env: [{name: LAUNCH_URL, value: "https://example.com"}]}`,
			bad: `spec: {env: [{name: LAUNCH-URL}]}`},
		{path: "spec.env[].name", name: "a digit first", good: `spec: {env: [{name: _7}]}`, bad: `spec: {env: [{name: 7ZIP}]}`},
		{path: "spec.nodeSelector", name: "a key that is no label", good: `spec: {nodeSelector: {node.example.com/pool: gpu}}`,
			bad: `spec: {nodeSelector: {"/pool": gpu}}`},
		{path: "spec.nodeSelector", name: "a value that is no label's", good: `spec: {nodeSelector: {pool: ` + strings.Repeat("a", 63) + `}}`,
			bad: `spec: {nodeSelector: {pool: ` + strings.Repeat("a", 64) + `}}`},
		{path: "spec.tolerations", name: "an operator of another language", good: `spec: {tolerations: [{key: gpu, operator: Exists, effect: NoExecute}]}`,
			bad: `spec: {tolerations: [{key: gpu, operator: In}]}`},
		{path: "spec.tolerations", name: "an effect that is none", good: `spec: {tolerations: [{key: gpu, value: "1"}]}`,
			bad: `spec: {tolerations: [{key: gpu, effect: Never}]}`},
	}
	cases = append(cases, limitOrderCases()...)
	cases = append(cases, homeVolumeCases()...)
	for i := range cases {
		cases[i].plural = "vditemplates"
	}
	return cases
}

// limitOrderCases returns the cases of defaults, which may not exceed their maximum.
func limitOrderCases() []ruleCase {
	var cases []ruleCase
	for _, path := range []string{"spec.timeout", "spec.idleTimeout"} {
		cases = append(cases, ruleCase{path: path, name: "a default longer than the maximum",
			good: nest(path, `{default: 60m, max: 1h}`), bad: nest(path, `{default: 61m, max: 1h}`)})
	}
	path := "spec.resources"
	return append(cases,
		ruleCase{path: path, name: "a default above the maximum",
			good: nest(path, `{default: {cpu: 2, memory: 4Gi}, max: {cpu: 2000m, memory: 4096Mi}}`),
			bad:  nest(path, `{default: {cpu: 2, memory: 4Gi}, max: {cpu: 1999m, memory: 4Gi}}`)},
		ruleCase{path: path, name: "a default above the maximum of a resource of many",
			good: nest(path, `{default: {cpu: 500m, nvidia.com/gpu: 2}, max: {nvidia.com/gpu: 2}}`),
			bad:  nest(path, `{default: {cpu: 500m, nvidia.com/gpu: 2}, max: {nvidia.com/gpu: 1}}`)})
}

// homeVolumeCases returns the cases of the volume that a template provides for its sessions.
func homeVolumeCases() []ruleCase {
	path := "spec.home"
	perUser := nest(path, `{mode: PerUser, size: 20Gi}`)
	return []ruleCase{
		{path: path, name: "a home without a size", good: nest(path, `{mode: PerSession, size: 1Gi}`), bad: nest(path, `{mode: PerSession}`)},
		{path: path, name: "a size without a home", good: nest(path, `{mode: None}`), bad: nest(path, `{size: 1Gi}`)},
		{path: path, name: "a size of nothing", good: perUser, bad: nest(path, `{mode: PerUser, size: "0"}`)},
		{path: path, name: "a size that is negative", good: nest(path, `{mode: PerUser, size: 1}`), bad: nest(path, `{mode: PerUser, size: -1}`)},
		{path: path, name: "a size that is no quantity", good: nest(path, `{mode: PerUser, size: 1e9}`), bad: nest(path, `{mode: PerUser, size: "1e1.5"}`)},
		{path: path, name: "users' homes that shrink", stored: perUser,
			good: nest(path, `{size: 21Gi}`), bad: nest(path, `{size: 19Gi}`)},
		{path: path, name: "a user's home that goes with the session", good: nest(path, `{mode: PerUser, size: 1Gi, retention: Retain, retentionTime: 720h}`),
			bad: nest(path, `{mode: PerUser, size: 1Gi, retention: Delete}`)},
		{path: path, name: "a retention time of what is deleted", good: nest(path, `{mode: PerSession, size: 1Gi, retention: Retain, retentionTime: 1h}`),
			bad: nest(path, `{mode: PerSession, size: 1Gi, retentionTime: 1h}`)},
		{path: path + ".retentionTime", name: "no time at all", good: nest(path, `{mode: PerUser, size: 1Gi, retentionTime: 1s}`),
			bad: nest(path, `{mode: PerUser, size: 1Gi, retentionTime: 0s}`)},
		{path: path + ".retentionTime", name: "days", good: nest(path, `{mode: PerUser, size: 1Gi, retentionTime: 48h}`),
			bad: nest(path, `{mode: PerUser, size: 1Gi, retentionTime: 2d}`)},
		{path: path + ".storageClassName", name: "what no object can be named",
			good: nest(path, `{mode: PerUser, size: 1Gi, storageClassName: fast.ssd-1}`),
			bad:  nest(path, `{mode: PerUser, size: 1Gi, storageClassName: Fast SSD}`)},
		{path: path + ".mountPath", name: "the root", good: nest(path, `{mountPath: /home/kasm-user}`), bad: nest(path, `{mountPath: /}`)},
		{path: path + ".mountPath", name: "a relative path", good: nest(path, `{mountPath: /home}`), bad: nest(path, `{mountPath: home}`)},
		{path: path + ".mountPath", name: "a way out", good: nest(path, `{mountPath: /home/.user}`), bad: nest(path, `{mountPath: /home/../etc}`)},
	}
}
