package api

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// crdDirs are the directories with the CRDs of the hub and of members.
var crdDirs = []string{"../../deploy/charts/vdi-hub/files/crds", "../../deploy/charts/vdi-agent/files/crds"}

// ruleCase is a case of one rule: an object that it rejects, and a similar one that it
// admits.
type ruleCase struct {
	// plural is that of the kind, path that of the rule in its schema; name describes the bad
	// object.
	plural, path, name string
	// good and bad are merge patches over the valid object, YAML.
	good, bad string
	// stored, if set, is a merge patch that makes the object that exists
	// already, status included; good and bad are then updates of it.
	stored string
	// ofStatus means that the updates are of the status.
	ofStatus bool
	// schema means that the schema itself rejects, not a CEL rule.
	schema bool
}

func (c ruleCase) title() string { return fmt.Sprintf("%s %s: %s", c.plural, c.path, c.name) }

// try submits the object with a patch in a dry run.
func (c ruleCase) try(ctx context.Context, stored *unstructured.Unstructured, patch string) error {
	dry := []string{metav1.DryRunAll}
	if stored == nil {
		_, err := client(c.plural).Create(ctx, build(c.plural, patch), metav1.CreateOptions{DryRun: dry})
		return err
	}
	object := stored.DeepCopy()
	merge(object.Object, parse(patch))
	options := metav1.UpdateOptions{DryRun: dry}
	if c.ofStatus {
		_, err := client(c.plural).UpdateStatus(ctx, object, options)
		return err
	}
	_, err := client(c.plural).Update(ctx, object, options)
	return err
}

// rule is a CEL rule of a CRD.
type rule struct{ plural, path, message string }

// rulesOf returns every rule of the CRDs.
func rulesOf(dirs []string) []rule {
	var files []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil || len(found) == 0 {
			panic(fmt.Sprint("no CRDs in ", dir, ": ", err))
		}
		files = append(files, found...)
	}
	var rules []rule
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			panic(err)
		}
		rules = collect(rules, crd.Spec.Names.Plural, "", *crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	return rules
}

func collect(rules []rule, plural, path string, schema apiextensionsv1.JSONSchemaProps) []rule {
	for _, r := range schema.XValidations {
		rules = append(rules, rule{plural, cmp.Or(path, "(root)"), r.Message})
	}
	for name, property := range schema.Properties {
		rules = collect(rules, plural, strings.TrimPrefix(path+"."+name, "."), property)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		rules = collect(rules, plural, path+"[]", *schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		rules = collect(rules, plural, path+"{}", *schema.AdditionalProperties.Schema)
	}
	return rules
}

var _ = Describe("Admission", Ordered, ContinueOnFailure, func() {
	rules := rulesOf(crdDirs)
	messages := map[string]string{} // by the case's title
	cases := slices.Concat(sharedCases(), desktopCases(), sessionCases(), templateCases(), fleetCases(), reviewCases(), schemaCases())
	slices.SortStableFunc(cases, func(a, b ruleCase) int {
		return strings.Compare(a.plural+" "+a.path, b.plural+" "+b.path)
	})

	for _, c := range cases {
		It(c.title(), func(ctx context.Context) {
			var stored *unstructured.Unstructured
			if c.stored != "" {
				stored = store(ctx, c.plural, build(c.plural, c.stored))
			}
			Expect(c.try(ctx, stored, c.good)).To(Succeed(), "the valid counterpart")
			text := answer(c.try(ctx, stored, c.bad))
			messages[c.title()] = text
			if !c.schema {
				Expect(rules).To(ContainElement(Satisfy(func(r rule) bool {
					return r.plural == c.plural && r.path == c.path && strings.Contains(text, r.message)
				})), "no rule at %s %s has the message %s", c.plural, c.path, text)
			}
		})
	}

	It("refuses with the messages of testdata/messages.txt", func() {
		var b strings.Builder
		for _, c := range cases {
			fmt.Fprintf(&b, "%s\n  %s\n", c.title(), messages[c.title()])
		}
		expectGolden("messages.txt", b.String())
	})

	It("has a case for every rule", func() {
		for _, r := range rules {
			Expect(cases).To(ContainElement(Satisfy(func(c ruleCase) bool {
				return !c.schema && r.plural == c.plural && r.path == c.path && strings.Contains(messages[c.title()], r.message)
			})), "no case shows the rule of %s %s: %s", r.plural, r.path, r.message)
		}
	})

	It("has no two cases of one title", func() {
		Expect(messages).To(HaveLen(len(cases)))
	})
})
