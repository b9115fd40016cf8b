package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"
	"sigs.k8s.io/crdify/pkg/validations"
	"sigs.k8s.io/yaml"
)

// acknowledgement is an intended break.
type acknowledgement struct {
	CRD     string `json:"crd"`
	Break   string `json:"break"`
	Because string `json:"because"`
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: crdcompat RELEASED CURRENT ACKNOWLEDGED")
		os.Exit(2)
	}
	wrong, err := run(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintf(os.Stderr, "crdcompat: %v\n", err)
		os.Exit(2)
	}
	for _, line := range wrong {
		fmt.Println(line)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
}

// run returns the findings, one per line.
func run(released, current, acknowledged string) ([]string, error) {
	before, err := load(released)
	if err != nil {
		return nil, err
	}
	after, err := load(current)
	if err != nil {
		return nil, err
	}
	meant, err := loadAcknowledged(acknowledged)
	if err != nil {
		return nil, err
	}
	compare, err := comparer()
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		breaks := []string{"the CRD is gone"}
		if after[name] != nil {
			breaks = compare(before[name], after[name])
		}
		for _, text := range breaks {
			i := slices.IndexFunc(meant, func(a acknowledgement) bool { return a.CRD == name && a.Break == text })
			if i < 0 {
				wrong = append(wrong, name+": "+text)
				continue
			}
			meant = slices.Delete(meant, i, i+1)
		}
	}
	for _, a := range meant {
		wrong = append(wrong, fmt.Sprintf("%s: is acknowledged in %s and is no longer a break: %s", a.CRD, acknowledged, a.Break))
	}
	return wrong, nil
}

// load reads the CRDs of a directory, by name.
func load(dir string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no CRDs", dir)
	}
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all[crd.Name] = crd
	}
	return all, nil
}

func loadAcknowledged(file string) ([]acknowledgement, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []acknowledgement
	if err := yaml.UnmarshalStrict(content, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, a := range all {
		if a.Because == "" {
			return nil, fmt.Errorf("%s: %s: %s: the reason is missing", file, a.CRD, a.Break)
		}
	}
	return all, nil
}

// comparer returns a function that lists how the second CRD breaks stored objects of the
// first.
func comparer() (func(before, after *apiextensionsv1.CustomResourceDefinition) []string, error) {
	registry := runner.DefaultRegistry()
	register(registry)
	all, err := runner.New(&config.Config{
		UnhandledEnforcement: config.EnforcementPolicyError,
		Validations: []config.ValidationConfig{
			{Name: "description", Enforcement: config.EnforcementPolicyNone},
			// Stored objects have none of the new values.
			{Name: "enum", Enforcement: config.EnforcementPolicyError, Configuration: map[string]any{"additionPolicy": "Allow"}},
		},
	}, registry)
	if err != nil {
		return nil, err
	}
	return func(before, after *apiextensionsv1.CustomResourceDefinition) []string {
		results := all.Run(before, after)
		var breaks []string
		add := func(where string, found []validations.ComparisonResult) {
			for _, result := range found {
				for _, text := range result.Errors {
					breaks = append(breaks, where+text)
				}
			}
		}
		add("", results.CRDValidation)
		for version, properties := range results.SameVersionValidation {
			for property, found := range properties {
				add(fmt.Sprintf("%s %s: ", version, property), found)
			}
		}
		for versions, properties := range results.ServedVersionValidation {
			for property, found := range properties {
				add(fmt.Sprintf("%s %s: ", versions, property), found)
			}
		}
		slices.Sort(breaks)
		return slices.Compact(breaks)
	}, nil
}
