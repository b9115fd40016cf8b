package api

import "strings"

// The rules of this file are for the inputs of a desktop, which templates, sessions and
// assignments share: variables, files, secrets and addresses.

var variableFields = []place{
	{"vdisessions", "spec.env[].name"},
	{"vditemplates", "spec.access.passwordEnv"},
}

var variableCases = []ruleCase{
	{name: "a dash", good: `VNC_PW`, bad: `VNC-PW`},
	{name: "a digit first", good: `_7`, bad: `7ZIP`},
}

var fileFields = []place{
	{"vdisessions", "spec.files[].name"},
	{"vditemplates", "spec.files[].name"},
	{"sessionassignments", "spec.desktop.files[].name"},
}

var fileCases = []ruleCase{
	{name: "a directory", good: `settings.json`, bad: `conf/settings.json`},
	{name: "a hidden file", good: `_bashrc`, bad: `.bashrc`},
}

var secretFields = []place{
	{"vditemplates", "spec.secrets[]"},
	{"sessionassignments", "spec.desktop.secrets[]"},
}

// secretCases are patches of a whole entry, and fit paths below it.
var secretCases = []ruleCase{
	{name: "used for nothing", good: `{name: license, mountPath: /etc/license}`, bad: `{name: license}`},
}

var directoryFields = []place{
	{"vditemplates", "spec.configMountPath"},
}

var directoryCases = []ruleCase{
	{name: "the root", good: `/etc/desktop`, bad: `/`},
	{name: "a way out", good: `/opt/.config`, bad: `/opt/../etc`},
}

var pathFields = []place{
	{"vditemplates", "spec.activity.path"},
	{"sessionassignments", "spec.desktop.activity.path"},
}

var pathCases = []ruleCase{
	{name: "a host", good: `/.well-known/vdi/activity`, bad: `"http://169.254.169.254/"`},
	{name: "a query", good: `/activity`, bad: `"/activity?of=me"`},
}

var cidrFields = []place{
	{"vditemplates", "spec.networkPolicy.egressCIDRs"},
	{"sessionassignments", "spec.desktop.networkPolicy.egressCIDRs"},
}

var cidrCases = []ruleCase{
	{name: "an address without its length", good: `[10.20.0.0/16, "fd00::/8"]`, bad: `[10.20.0.1]`},
}

// desktopCases returns the cases of single fields.
func desktopCases() []ruleCase {
	var cases []ruleCase
	for _, p := range []place{{"vditemplates", "spec.secrets[]"}, {"sessionassignments", "spec.desktop.secrets[]"}} {
		entry := func(fields string) string { return nest(p.path, fields) }
		cases = append(cases,
			ruleCase{plural: p.plural, path: p.path + ".name", name: "what no object can be named",
				good: entry(`{name: a.b-1, mountPath: /s}`), bad: entry(`{name: A_B, mountPath: /s}`)},
			ruleCase{plural: p.plural, path: p.path + ".mountPath", name: "a relative path",
				good: entry(`{name: a, mountPath: /s/t}`), bad: entry(`{name: a, mountPath: s}`)},
			ruleCase{plural: p.plural, path: p.path + ".env[].name", name: "a dash",
				good: entry(`{name: a, env: [{name: LICENSE_KEY, key: key}]}`), bad: entry(`{name: a, env: [{name: LICENSE-KEY, key: key}]}`)})
	}
	return append(cases,
		ruleCase{plural: "vditemplates", path: "spec.sharedMemory", name: "nothing",
			good: `spec: {sharedMemory: 512Mi}`, bad: `spec: {sharedMemory: 0}`},
		ruleCase{plural: "vdisessions", path: "spec", name: "other groups", stored: `spec: {groups: [staff]}`,
			good: `spec: {groups: [staff]}`, bad: `spec: {groups: [staff, admins]}`},
		ruleCase{plural: "vdisessions", path: "spec", name: "groups where there were none", stored: `{}`,
			good: `spec: {groups: []}`, bad: `spec: {groups: [staff]}`},
		ruleCase{plural: "vdisessions", path: "spec", name: "groups that are removed", stored: `spec: {groups: [staff]}`,
			good: `spec: {timeout: 2h}`, bad: `spec: {groups: null}`},
		ruleCase{plural: "vdisessions", path: "spec", name: "an attempt that falls", stored: `spec: {attempt: 2}`,
			good: `spec: {attempt: 3}`, bad: `spec: {attempt: 1}`},
		ruleCase{plural: "vdisessions", path: "spec", name: "an attempt that is removed", stored: `spec: {attempt: 2}`,
			good: `spec: {attempt: 2}`, bad: `spec: {attempt: null}`},
		ruleCase{plural: "vdisessions", path: "status.timeUsed", name: "days", ofStatus: true, stored: `{}`,
			good: `status: {timeUsed: 1h30m}`, bad: `status: {timeUsed: 2d}`},
		ruleCase{plural: "sessionassignments", path: "status.timeUsed", name: "days", ofStatus: true, stored: `{}`,
			good: `status: {timeUsed: 1h30m}`, bad: `status: {timeUsed: 2d}`},
		ruleCase{plural: "vditemplates", path: "spec.env[].name", name: "too long", schema: true,
			good: `spec: {env: [{name: ` + strings.Repeat("a", 249) + `}]}`, bad: `spec: {env: [{name: ` + strings.Repeat("a", 250) + `}]}`},
	)
}
