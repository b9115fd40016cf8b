package api

import (
	"fmt"
	"strings"
)

// place is a field of a kind.
type place struct{ plural, path string }

// nest returns a patch that sets the field at a dotted path.
func nest(path, value string) string {
	fields := strings.Split(path, ".")
	out := value
	for i := len(fields) - 1; i >= 0; i-- {
		name, isList := strings.CutSuffix(fields[i], "[]")
		if isList {
			out = "[" + out + "]"
		}
		out = name + ": " + out
		if i > 0 {
			out = "{" + out + "}"
		}
	}
	return out
}

// sharedCases returns the cases of rules that several fields share.
func sharedCases() []ruleCase {
	var all []ruleCase
	for _, group := range []struct {
		places []place
		cases  []ruleCase
	}{
		{quantityFields, quantityCases},
		{sessionPayload, payloadCases(4)},
		{templatePayload, payloadCases(16)},
		{durationFields, durationCases},
		{shortDurationFields, shortDurationCases},
		{failoverFields, failoverCases},
		{limitFields, limitCases},
		{selectorFields, selectorCases},
		{nameFields, nameCases},
		{variableFields, variableCases},
		{fileFields, fileCases},
		{secretFields, secretCases},
		{directoryFields, directoryCases},
		{pathFields, pathCases},
		{cidrFields, cidrCases},
	} {
		for _, field := range group.places {
			for _, c := range group.cases {
				c.plural, c.path = field.plural, field.path
				c.good, c.bad = nest(field.path, c.good), nest(field.path, c.bad)
				all = append(all, c)
			}
		}
	}
	return all
}

var quantityFields = []place{
	{"vdisessions", "spec.resources"},
	{"vditemplates", "spec.resources.default"},
	{"vditemplates", "spec.resources.max"},
}

var quantityCases = []ruleCase{
	{name: "an unknown resource", good: `{nvidia.com/gpu: 1}`, bad: `{gpu: 1}`},
	{name: "a negative number", good: `{nvidia.com/gpu: 0}`, bad: `{nvidia.com/gpu: -1}`},
	{name: "none of a resource, which would be no limit", good: `{cpu: 1, nvidia.com/gpu: "0"}`, bad: `{cpu: 0}`},
	{name: "none of a resource, written otherwise", good: `{memory: 1}`, bad: `{memory: 0Gi}`},
	{name: "a negative quantity", good: `{memory: 4Gi, cpu: 500m}`, bad: `{memory: 4Gi, cpu: "-500m"}`},
	{name: "what looks like a quantity and is none", good: `{memory: 1e9}`, bad: `{memory: "1e1.5"}`},
	// The API server would compute all digits of it if a rule compared it.
	{name: "a quantity with a huge exponent", good: `{memory: 8Ei}`, bad: `{memory: "9e99999999"}`},
	{name: "zero with a huge exponent", good: `{nvidia.com/gpu: "0e2"}`, bad: `{nvidia.com/gpu: "0e99999999"}`},
	{name: "part of a GPU", good: `{nvidia.com/gpu: "2"}`, bad: `{nvidia.com/gpu: 500m}`},
}

var (
	sessionPayload  = []place{{"vdisessions", "spec"}}
	templatePayload = []place{{"vditemplates", "spec"}}
)

// payloadCases returns the cases of env and files of at most most times 16 KiB together.
func payloadCases(most int) []ruleCase {
	files := func(count, length int, of string) string {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprintf("{name: f%c, content: %q}", 'a'+i, strings.Repeat(of, length)))
		}
		return strings.Join(all, ", ")
	}
	full := files(most, 16<<10-2, "x")
	return []ruleCase{
		{name: "one byte more of env and files than may be", good: "{files: [" + full + "]}", bad: "{env: [{name: A}], files: [" + full + "]}"},
		{name: "characters of several bytes", good: "{files: [" + files(most, 5<<10, "€") + "]}", bad: "{files: [" + files(most, 6<<10, "€") + "]}"},
	}
}

var durationFields = []place{
	{"vdisessions", "spec.timeout"},
	{"vdisessions", "spec.idleTimeout"},
	{"vdisessions", "spec.failover.after"},
	{"vditemplates", "spec.timeout.default"},
	{"vditemplates", "spec.timeout.max"},
	{"vditemplates", "spec.idleTimeout.default"},
	{"vditemplates", "spec.idleTimeout.max"},
	{"placementpolicies", "spec.failover.after"},
	{"sessionassignments", "spec.timeout"},
	{"sessionassignments", "spec.timeUsed"},
	{"vditemplates", "spec.startTimeout"},
	{"vdihomes", "spec.retentionTime"},
	{"sessionassignments", "spec.idleTimeout"},
	{"sessionassignments", "spec.desktop.startTimeout"},
	{"sessionassignments", "spec.desktop.home.retentionTime"},
}

// shortDurationFields are the durations of at most an hour.
var shortDurationFields = []place{
	{"placementpolicies", "spec.maxProvisioningTime"},
}

var shortDurationCases = []ruleCase{
	{name: "a number without a unit", good: `5m`, bad: `"90"`},
	{name: "days", good: `1h`, bad: `2d`},
	{name: "prose", good: `59m59.999s`, bad: `1 hour`},
	{name: "a negative length", good: `0s`, bad: `-1h`},
	{name: "nothing", good: `1500ms`, bad: `""`},
}

var failoverFields = []place{
	{"vdisessions", "spec.failover"},
	{"placementpolicies", "spec.failover"},
}

var failoverCases = []ruleCase{
	{name: "an original to keep where no two copies ever run", good: `{mode: Restart, healing: KeepOriginal}`, bad: `{mode: Fence, healing: KeepOriginal}`},
}

var durationCases = []ruleCase{
	{name: "a number without a unit", good: `90m`, bad: `"90"`},
	{name: "days", good: `48h`, bad: `2d`},
	{name: "prose", good: `1h30m`, bad: `1 hour`},
	{name: "a negative length", good: `1.5h`, bad: `-1h`},
	{name: "more than Go can hold", good: `999999h`, bad: `9999999h`},
	{name: "nothing", good: `1500ms`, bad: `""`},
}

// limitFields are the durations that must be longer than 0.
var limitFields = []place{
	{"vditemplates", "spec.timeout.default"},
	{"vditemplates", "spec.timeout.max"},
	{"vditemplates", "spec.idleTimeout.default"},
	{"vditemplates", "spec.idleTimeout.max"},
	{"vditemplates", "spec.startTimeout"},
}

var limitCases = []ruleCase{
	{name: "no time at all", good: `1s`, bad: `0h0m0s`},
}

var selectorFields = []place{
	{"vdisessions", "spec.placement.clusterSelector"},
	{"vditemplates", "spec.clusterSelector"},
	{"placementpolicies", "spec.requiredClusters"},
	{"placementpolicies", "spec.preferredClusters"},
	{"placementpolicies", "spec.match.selector"},
}

var selectorCases = []ruleCase{
	{name: "an operator of another language", good: `{matchExpressions: [{key: gpu, operator: Exists}]}`,
		bad: `{matchExpressions: [{key: gpu, operator: Equals, values: [nvidia]}]}`},
	{name: "In without values", good: `{matchExpressions: [{key: gpu, operator: In, values: [nvidia]}]}`,
		bad: `{matchExpressions: [{key: gpu, operator: In}]}`},
	{name: "Exists with values", good: `{matchExpressions: [{key: gpu, operator: DoesNotExist}]}`,
		bad: `{matchExpressions: [{key: gpu, operator: Exists, values: [nvidia]}]}`},
	{name: "a key that is no label", good: `{matchLabels: {example.com/gpu: nvidia}}`,
		bad: `{matchLabels: {"a gpu": nvidia}}`},
	{name: "a value that is no label's", good: `{matchLabels: {gpu: ` + strings.Repeat("a", 63) + `}}`,
		bad: `{matchLabels: {gpu: ` + strings.Repeat("a", 64) + `}}`},
}

var nameFields = []place{
	{"vdisessions", "spec.placement.policy"},
	{"vditemplates", "spec.runtimeClassName"},
	{"vditemplates", "spec.ingressClassName"},
	{"vditemplates", "spec.priorityClassName"},
	{"vditemplates", "spec.tlsSecretName"},
}

var nameCases = []ruleCase{
	{name: "what no object can be named", good: `eu.only-1`, bad: `EU only`},
}
