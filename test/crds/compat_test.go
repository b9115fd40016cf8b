package crds

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const desk = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: desks.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Desk, listKind: DeskList, plural: desks, singular: desk}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            x-kubernetes-validations: [{rule: "self.size > 0", message: too small}]
            properties:
              size: {type: integer, minimum: 1, maximum: 9}
              kind: {type: string, enum: [oak, pine], default: oak}
              name: {type: string, maxLength: 9, pattern: "^[a-z]*$", nullable: true}
              legs: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [at], items: {type: object, required: [at], properties: {at: {type: string}}}}
              notes: {type: object, additionalProperties: {type: string}}
`

// changes are changes of desk, each the replacement of a text. breaks is the expected output,
// empty if no stored object breaks.
var changes = map[string]struct{ was, is, breaks string }{
	"nothing":                     {"", "", ""},
	"a field removed":             {"              notes: {type: object, additionalProperties: {type: string}}\n", "", "removed field : v1.^.spec.notes"},
	"a field renamed":             {"notes:", "remarks:", "removed field : v1.^.spec.notes"},
	"a field of items":            {", properties: {at: {type: string}}", "", "at"},
	"a type":                      {"notes: {type: object, additionalProperties: {type: string}}", "notes: {type: object, additionalProperties: {type: integer}}", "type changed"},
	"a required field":            {"required: [size]", "required: [size, kind]", "new required fields"},
	"an enum value removed":       {"[oak, pine]", "[oak]", "enum"},
	"a default changed":           {"default: oak", "default: pine", "default"},
	"a higher minimum":            {"minimum: 1", "minimum: 2", "minimum"},
	"a lower maximum":             {"maximum: 9", "maximum: 8", "maximum"},
	"a shorter length":            {"maxLength: 9", "maxLength: 8", "maximum decreased"},
	"a bound where none was":      {"at: {type: string}", "at: {type: string, maxLength: 8}", "maximum constraint added"},
	"another pattern":             {"^[a-z]*$", "^[a-y]*$", "pattern changed"},
	"null no longer":              {", nullable: true", "", "null is no longer allowed"},
	"the keys of a list":          {"list-map-keys: [at]", "list-map-keys: [by]", "keys of the list changed"},
	"the type of a list":          {"x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [at], ", "x-kubernetes-list-type: atomic, ", "list or map type changed"},
	"a new rule":                  {"rule: \"self.size > 0\"", "rule: \"self.size > 1\"", "new rule: self.size > 1"},
	"the scope":                   {"scope: Namespaced", "scope: Cluster", "scope"},
	"the kind":                    {"kind: Desk,", "kind: Table,", "names changed"},
	"the plural":                  {"plural: desks,", "plural: tables,", "names changed"},
	"a version renamed":           {"- name: v1\n", "- name: v2\n", "version removed: v1"},
	"the stored version":          {"- name: v1\n    served: true\n    storage: true\n", "- name: v2\n    served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object}}\n  - name: v1\n    served: true\n    storage: false\n", "stored version changed: v1 -> v2"},
	"a version not served":        {"served: true", "served: false", "version no longer served: v1"},
	"the status subresource":      {"subresources: {status: {}}", "subresources: {}", "status is no longer a subresource"},
	"an unhandled change":         {"type: array,", "type: array, uniqueItems: true,", "unhandled"},
	"a map made closed":           {"notes: {type: object, additionalProperties: {type: string}}", "notes: {type: object}", "removed field : v1.^.spec.notes[*]"},
	"a new field":                 {"size: {", "color: {type: string}\n              size: {", ""},
	"a new default field":         {"size: {", "color: {type: string, default: red}\n              size: {", ""},
	"a new enum value":            {"[oak, pine]", "[oak, pine, ash]", ""},
	"a wider range":               {"maximum: 9", "maximum: 10", ""},
	"a removed pattern":           {", pattern: \"^[a-z]*$\"", "", ""},
	"a removed rule":              {"            x-kubernetes-validations: [{rule: \"self.size > 0\", message: too small}]\n", "", ""},
	"a rule with another message": {"message: too small", "message: smaller than any", ""},
	"a rule about changes":        {"[{rule: \"self.size > 0\"", "[{rule: \"self.size >= oldSelf.size\"}, {rule: \"self.size > 0\"", ""},
	"a description":               {"size: {", "size: {description: of the top, ", ""},
	"what is required no more":    {"            required: [size]\n", "", ""},
}

func TestWhatBreaksStoredObjects(t *testing.T) {
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(desk, c.was) {
				t.Fatalf("%q is not there to be changed", c.was)
			}
			out, failed := compare(t, strings.Replace(desk, c.was, c.is, 1), "[]")
			switch {
			case failed != (c.breaks != ""):
				t.Errorf("it fails: %t, and prints\n%s", failed, out)
			case !strings.Contains(out, c.breaks):
				t.Errorf("it does not mention %q:\n%s", c.breaks, out)
			}
		})
	}
}

func TestAnAcknowledgedBreakingChange(t *testing.T) {
	const meant = `[{crd: desks.example.com, break: 'v1 ^.spec: new rule: self.size > 1', because: there are none so small}]`
	changed := strings.Replace(desk, "self.size > 0", "self.size > 1", 1)
	if out, failed := compare(t, changed, meant); failed {
		t.Errorf("what is acknowledged fails:\n%s", out)
	}
	if out, failed := compare(t, desk, meant); !failed || !strings.Contains(out, "no longer a break") {
		t.Errorf("an acknowledgement of nothing passes:\n%s", out)
	}
	if out, failed := compare(t, changed, strings.Replace(meant, "there are none so small", "''", 1)); !failed || !strings.Contains(out, "the reason is missing") {
		t.Errorf("an acknowledgement without a reason passes:\n%s", out)
	}
}

// needsTool skips a short run: only `make test-all` builds bin/crdcompat.
func needsTool(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a short run has no bin/crdcompat")
	}
}

// compare runs crdcompat on desk and its changed form.
func compare(t *testing.T, changed, acknowledged string) (out string, failed bool) {
	t.Helper()
	needsTool(t)
	dir := t.TempDir()
	write := func(path, content string) string {
		path = filepath.Join(dir, path)
		put(t, path, []byte(content), 0o600)
		return path
	}
	before, after := write("released/desk.yaml", desk), write("current/desk.yaml", changed)
	printed, err := exec.CommandContext(t.Context(), "../../bin/crdcompat", filepath.Dir(before), filepath.Dir(after), write("acknowledged.yaml", acknowledged)).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("running bin/crdcompat (make bin/crdcompat): %v", err)
	}
	return string(printed), err != nil
}

// TestTheLastReleaseIsCompared runs tools/stored.sh in a repository without a release, in
// one with a release, and in a shallow clone, which does not have the tags.
func TestTheLastReleaseIsCompared(t *testing.T) {
	needsTool(t)
	const crd = "deploy/charts/desks/files/crds/desk.yaml"
	repository, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	commit := func(text string) {
		t.Helper()
		put(t, filepath.Join(repository, crd), []byte(text), 0o600)
		git(repository, "add", "--all")
		git(repository, "commit", "--quiet", "--message=desks")
	}
	expect := func(dir, text string, fails bool) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "tools/stored.sh")).CombinedOutput()
		if (err != nil) != fails || !strings.Contains(string(out), text) {
			t.Errorf("want %q, failing: %t; it ends with %v and prints\n%s", text, fails, err, out)
		}
	}
	for _, file := range []struct {
		path string
		mode fs.FileMode
	}{{"tools/stored.sh", 0o700}, {"bin/crdcompat", 0o700}, {"tools/crdcompat/acknowledged.yaml", 0o600}} {
		content, err := os.ReadFile(filepath.Join("../..", file.path))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(repository, file.path), content, file.mode)
	}
	put(t, filepath.Join(repository, ".gitignore"), []byte("/bin/\n"), 0o600)
	git(repository, "init", "--quiet")
	commit(desk)
	expect(repository, "no release yet", false)
	git(repository, "tag", "v0.1.0")
	commit(strings.Replace(desk, "maximum: 9", "maximum: 10", 1))
	expect(repository, "compared with v0.1.0", false)
	commit(strings.Replace(desk, "maximum: 9", "maximum: 8", 1))
	expect(repository, "maximum", true)
	git(repository, "clone", "--quiet", "--depth=1", "file://"+repository, clone)
	expect(clone, "NOT DONE", false)
}

// put writes a file, and the directories that lead to it.
func put(t *testing.T, path string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
}
