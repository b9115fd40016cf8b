package charts

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var charts = []string{hubChart, agentChart}

func TestTheSchemasAreClosedAndDescribeEachValue(t *testing.T) {
	t.Parallel()
	for _, chart := range charts {
		schema := map[string]any{}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(chart, "values.schema.json"))), &schema); err != nil {
			t.Fatal(err)
		}
		for _, problem := range open(schema, filepath.Base(chart), "$") {
			t.Error(problem)
		}
	}
}

// open returns the objects that accept any key, and the values without a description.
func open(schema map[string]any, chart, path string) []string {
	var problems []string
	properties, _ := schema["properties"].(map[string]any)
	if schema["type"] == "object" && path != "$.global" {
		if _, set := schema["additionalProperties"]; !set {
			problems = append(problems, fmt.Sprintf("%s: %s accepts any key", chart, path))
		}
	}
	for name, property := range properties {
		inner := property.(map[string]any)
		if inner["description"] == nil {
			problems = append(problems, fmt.Sprintf("%s: %s.%s is not described", chart, path, name))
		}
		problems = append(problems, open(inner, chart, path+"."+name)...)
	}
	definitions, _ := schema["definitions"].(map[string]any)
	for name, definition := range definitions {
		problems = append(problems, open(definition.(map[string]any), chart, "#"+name)...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		problems = append(problems, open(items, chart, path+"[]")...)
	}
	return problems
}

func TestEachValueHasADefault(t *testing.T) {
	t.Parallel()
	for _, chart := range charts {
		schema, values := map[string]any{}, map[string]any{}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(chart, "values.schema.json"))), &schema); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(read(t, filepath.Join(chart, "values.yaml"))), &values); err != nil {
			t.Fatal(err)
		}
		for _, path := range absent(schema, values, "") {
			t.Errorf("%s: %s is in the schema, and not in values.yaml", filepath.Base(chart), path)
		}
	}
}

// absent returns the properties of the schema that the values lack.
func absent(schema, values map[string]any, path string) []string {
	// Values that the API server defaults, that are unset on purpose, or that a parent chart
	// sets.
	if path == ".join" {
		return nil
	}
	var missing []string
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		value, has := values[name]
		if !has && path+"."+name != ".global" {
			missing = append(missing, path+"."+name)
		}
		if inner, ok := value.(map[string]any); ok {
			missing = append(missing, absent(property.(map[string]any), inner, path+"."+name)...)
		}
	}
	return missing
}

func TestBadValuesAreRefused(t *testing.T) {
	t.Parallel()
	const uid = "6b7b6a1c-9d0f-4a39-8a0e-3f7f4e9a1b2c"
	hash := "sha256:" + strings.Repeat("0a", 32)
	for _, bad := range []struct{ chart, values, want string }{
		{hubChart, `{replica: 3}`, "'replica' not allowed"},
		{hubChart, `{replicas: 0}`, "'/replicas'"},
		{hubChart, `{replicas: two}`, "'/replicas'"},
		{hubChart, `{image: {tag: "a b"}}`, "'/image/tag'"},
		{hubChart, `{image: {digest: "sha256:0"}}`, "'/image/digest'"},
		{hubChart, `{image: {name: hub}}`, "'name' not allowed"},
		{hubChart, `{link: {dnsNames: ["https://hub.example.com"]}}`, "'/link/dnsNames/0'"},
		{hubChart, `{link: {service: {type: ExternalName}}}`, "'/link/service/type'"},
		{hubChart, `{link: {service: {port: 70000}}}`, "'/link/service/port'"},
		{hubChart, `{link: {service: {annotations: {a: 1}}}}`, "'/link/service/annotations/a'"},
		{hubChart, `{certificates: {mode: selfSigned}}`, "'/certificates/mode'"},
		{hubChart, `{certificates: {mode: secret}}`, "'/certificates/secretName'"},
		{hubChart, `{certificates: {mode: certManager}}`, "'/certificates/certManager/issuerRef/name'"},
		{hubChart, `{failover: {after: 60}}`, "'/failover/after'"},
		{hubChart, `{failover: {lease: 3 minutes}}`, "'/failover/lease'"},
		{hubChart, `{timeFactor: 0}`, "'/timeFactor'"},
		{hubChart, `{log: {level: loud}}`, "'/log/level'"},
		{hubChart, `{tracing: {endpoint: collector}}`, "'/tracing/endpoint'"},
		{hubChart, `{tracing: {endpoint: "ftp://collector:4317"}}`, "'/tracing/endpoint'"},
		{hubChart, `{tracing: {samplingRatio: 2}}`, "'/tracing/samplingRatio'"},
		{hubChart, `{tracing: {caConfigMap: ca.crt/collector}}`, "'/tracing/caConfigMap'"},
		{hubChart, `{resources: {requests: {memory: lots}}}`, "'/resources/requests/memory'"},
		{hubChart, `{resources: {request: {memory: 1Gi}}}`, "'request' not allowed"},
		{hubChart, `{probes: {liveness: {httpGet: {path: /}}}}`, "'httpGet' not allowed"},
		{hubChart, `{priorityClass: {create: true, name: ""}}`, "'/priorityClass/name'"},
		{hubChart, `{priorityClass: {value: 2000000000}}`, "'/priorityClass/value'"},
		{hubChart, `{antiAffinity: none}`, "'/antiAffinity'"},
		{hubChart, `{tolerations: [{keys: a}]}`, "'keys' not allowed"},
		{hubChart, `{networkPolicy: {agentsFrom: [{cidr: 10.0.0.0/8}]}}`, "'cidr' not allowed"},
		{hubChart, `{networkPolicy: {apiServer: {cidrs: [10.0.0.1]}}}`, "'/networkPolicy/apiServer/cidrs/0'"},
		{hubChart, `{metrics: {serviceMonitor: {interval: "15"}}}`, "'/metrics/serviceMonitor/interval'"},
		{hubChart, `{metrics: {authentication: maybe}}`, "'/metrics/authentication'"},
		{agentChart, `{metrics: {serviceMonitor: {tokenSecret: {key: ""}}}}`, "'/metrics/serviceMonitor/tokenSecret/key'"},
		{hubChart, `{crds: true}`, "'/crds'"},
		{hubChart, `{defaultPolicy: {sessionsPerUser: -1}}`, "'/defaultPolicy/sessionsPerUser'"},
		{hubChart, `{console: {url: "http://desktops.example.com"}}`, "'/console/url'"},
		{hubChart, `{console: {url: "https://desktops.example.com/console"}}`, "'/console/url'"},
		{hubChart, `{console: {impersonation: full}}`, "'/console/impersonation'"},
		{hubChart, `{console: {trustedProxies: [10.0.0.1]}}`, "'/console/trustedProxies/0'"},
		{hubChart, `{console: {oidc: {issuerURL: "https://idp.example.com", clientID: ""}}}`, "'/console/oidc/clientID'"},
		{hubChart, `{console: {oidc: {issuerURL: "http://idp.example.com"}}}`, "'/console/oidc/issuerURL'"},
		{hubChart, `{console: {password: alice}}`, "'password' not allowed"},
		{hubChart, `{sessionNamespaces: [desktops], console: {enabled: true}}`, "console.url is not set"},
		{hubChart, `{sessionNamespaces: [desktops], console: {enabled: true, url: "https://desktops.example.com"}}`, "nobody could log in to the console"},
		{hubChart, `{allNamespaces: true, console: {enabled: true, url: "https://desktops.example.com", users: {secretName: users}}}`, "console.namespaces is not set"},
		{hubChart, `{sessionNamespaces: [Desktops]}`, "'/sessionNamespaces/0'"},
		{hubChart, `{sessionNamespaces: desktops}`, "'/sessionNamespaces'"},
		{hubChart, `{allNamespaces: "yes"}`, "'/allNamespaces'"},
		{hubChart, `{userRoles: "on"}`, "'/userRoles'"},
		{hubChart, `{}`, "no session namespaces are set: list them, as in --set 'sessionNamespaces={desktops}', or set allNamespaces=true"},
		{hubChart, `{sessionNamespaces: [desktops], allNamespaces: true}`, "mutually exclusive"},
		{hubChart, `{join: {}}`, "'join' not allowed"},
		{agentChart, `{join: {member: eu}}`, "'hub' required"},
		{agentChart, `{join: {hub: "h:1"}}`, "'member' required"},
		{agentChart, `{join: {member: eu, hub: "h:1"}}`, "'caHashes' required"},
		{agentChart, `{join: {member: eu, hub: h, caHashes: ["` + hash + `"]}}`, "'/join/hub'"},
		{agentChart, `{join: {member: eu, hub: "https://h:1", caHashes: ["` + hash + `"]}}`, "'/join/hub'"},
		{agentChart, `{join: {member: eu, hub: "h:1", caHashes: ["sha256:0A"]}}`, "'/join/caHashes/0'"},
		{agentChart, `{join: {member: eu, hub: "h:1", caHashes: ["` + hash + `"], token: abc}}`, "'/join/token'"},
		{agentChart, `{join: {Member: eu}}`, "'Member' not allowed"},
		{agentChart, `{certificates: {mode: secret, secretName: tls}}`, "missing properties 'member', 'hub'"},
		{agentChart, `{certificates: {mode: certManager, certManager: {issuerRef: {name: i}}}, join: {member: eu, hub: "h:1"}}`, "missing property 'uid'"},
		{agentChart, `{certificates: {mode: builtIn}}`, "'/certificates/mode'"},
		{agentChart, `{gateway: {name: public}}`, "'/gateway/name'"},
		{agentChart, `{gateway: {name: a/b, tlsSecret: c}}`, "'/gateway'"},
		{agentChart, `{guard: {port: 0}}`, "'/guard/port'"},
		{agentChart, `{tracing: {samplingRatio: 1}}`, "'samplingRatio' not allowed"},
		{agentChart, `{sessions: {failAfter: soon}}`, "'/sessions/failAfter'"},
		{agentChart, `{restrictions: {hostSuffixes: ["*.example.com"]}}`, "'/restrictions/hostSuffixes/0'"},
		{agentChart, `{restrictions: {imagePrefixes: ["https://registry.example.com"]}}`, "'/restrictions/imagePrefixes/0'"},
		{agentChart, `{restrictions: {privateEgress: false}}`, "'/restrictions/openNetwork'"},
		{agentChart, `{restrictions: {hosts: []}}`, "'hosts' not allowed"},
		{agentChart, `{failover: {after: 60s}}`, "'failover' not allowed"},
	} {
		file := filepath.Join(t.TempDir(), "values.yaml")
		write(t, file, bad.values)
		if _, err := template(t, bad.chart, "-f", file); err == nil {
			t.Errorf("%s takes %s", filepath.Base(bad.chart), bad.values)
		} else if !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s, %s: want %s, got %v", filepath.Base(bad.chart), bad.values, bad.want, err)
		}
	}
	for _, good := range []struct{ chart, values string }{
		{hubChart, `{sessionNamespaces: [desktops], global: {registry: x}}`},
		{hubChart, `{allNamespaces: true, tracing: {endpoint: "https://collector.example.com:443"}}`},
		{agentChart, `{tracing: {endpoint: "[2001:db8::1]:4317"}}`},
		{agentChart, `{join: {member: eu, hub: "h:1", caHashes: ["` + hash + `"]}}`},
		{agentChart, `{certificates: {mode: certManager, certManager: {issuerRef: {name: i}}}, join: {member: eu, hub: "[2001:db8::1]:1", uid: ` + uid + `}}`},
	} {
		file := filepath.Join(t.TempDir(), "values.yaml")
		write(t, file, good.values)
		if _, err := template(t, good.chart, "-f", file); err != nil {
			t.Error(err)
		}
	}
}
