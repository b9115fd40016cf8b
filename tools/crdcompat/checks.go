package main

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/validations"
)

// register adds checks that crdify lacks. crdify reports each change that no check handles as
// a break: so a check resets the fields that it has compared.
func register(registry validations.Registry) {
	for name, compare := range map[string]func(a, b *apiextensionsv1.JSONSchemaProps) []error{
		"pattern": pattern, "rules": rules, "lists": lists, "null": nullable, "maps": additional,
	} {
		registry.Register(name, func(map[string]any) (validations.Validation, error) {
			return &check[apiextensionsv1.JSONSchemaProps]{name: name, compare: compare}, nil
		})
	}
	registry.Register("identity", func(map[string]any) (validations.Validation, error) {
		return &check[apiextensionsv1.CustomResourceDefinition]{name: "identity", compare: identity}, nil
	})
}

// check is a validation of crdify that calls a function.
type check[T validations.Comparable] struct {
	name        string
	enforcement config.EnforcementPolicy
	compare     func(before, after *T) []error
}

// Name implements Validation.
func (c *check[T]) Name() string { return c.name }

// SetEnforcement implements Validation.
func (c *check[T]) SetEnforcement(policy config.EnforcementPolicy) { c.enforcement = policy }

// Compare implements Comparator.
func (c *check[T]) Compare(before, after *T) validations.ComparisonResult {
	return validations.HandleErrors(c.name, c.enforcement, c.compare(before, after)...)
}

// pattern permits only removal: whether a pattern is wider than another is undecidable here.
func pattern(before, after *apiextensionsv1.JSONSchemaProps) (wrong []error) {
	if after.Pattern != before.Pattern && after.Pattern != "" {
		wrong = append(wrong, fmt.Errorf("pattern changed: %q -> %q", before.Pattern, after.Pattern))
	}
	if after.Format != before.Format && after.Format != "" {
		wrong = append(wrong, fmt.Errorf("format changed: %q -> %q", before.Format, after.Format))
	}
	before.Pattern, after.Pattern, before.Format, after.Format = "", "", "", ""
	return wrong
}

// rules permits removal of rules and changes of their messages. A new rule is a break unless
// it is a transition rule (oldSelf), which does not apply to stored objects.
//
// API servers ratchet validation: since 1.30 an update does not fail a rule, pattern, enum or
// bound on a value that it does not change. That does not make a new rule safe. A rule on an
// object or list is evaluated again for any change within it. Created objects are not
// ratcheted, for example when they are restored from a backup; nor are required fields, types
// and list keys.
func rules(before, after *apiextensionsv1.JSONSchemaProps) (wrong []error) {
	for _, rule := range after.XValidations {
		known := slices.ContainsFunc(before.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == rule.Rule })
		if !known && !strings.Contains(rule.Rule, "oldSelf") {
			wrong = append(wrong, fmt.Errorf("new rule: %s", rule.Rule))
		}
	}
	before.XValidations, after.XValidations = nil, nil
	return wrong
}

// lists requires lists and maps to keep their types and keys, by which objects are merged.
func lists(before, after *apiextensionsv1.JSONSchemaProps) (wrong []error) {
	if text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}; text(before.XListType) != text(after.XListType) || text(before.XMapType) != text(after.XMapType) {
		wrong = append(wrong, fmt.Errorf("list or map type changed: %q -> %q", text(before.XListType)+text(before.XMapType), text(after.XListType)+text(after.XMapType)))
	}
	if !slices.Equal(before.XListMapKeys, after.XListMapKeys) {
		wrong = append(wrong, fmt.Errorf("keys of the list changed: %v -> %v", before.XListMapKeys, after.XListMapKeys))
	}
	before.XListType, after.XListType, before.XMapType, after.XMapType = nil, nil, nil, nil
	before.XListMapKeys, after.XListMapKeys = nil, nil
	return wrong
}

// nullable permits only its addition.
func nullable(before, after *apiextensionsv1.JSONSchemaProps) (wrong []error) {
	if before.Nullable && !after.Nullable {
		wrong = append(wrong, fmt.Errorf("null is no longer allowed"))
	}
	before.Nullable, after.Nullable = false, false
	return wrong
}

// additional ignores additional properties with a schema, which is compared separately.
func additional(before, after *apiextensionsv1.JSONSchemaProps) []error {
	a, b := before.AdditionalProperties, after.AdditionalProperties
	if a != nil && b != nil && a.Schema != nil && b.Schema != nil {
		before.AdditionalProperties, after.AdditionalProperties = nil, nil
	}
	return nil
}

// identity compares how the objects of a CRD are stored and named.
func identity(before, after *apiextensionsv1.CustomResourceDefinition) (wrong []error) {
	if a, b := before.Spec.Names, after.Spec.Names; a.Kind != b.Kind || a.ListKind != b.ListKind || a.Plural != b.Plural {
		wrong = append(wrong, fmt.Errorf("names changed: %s, %s -> %s, %s", a.Kind, a.Plural, b.Kind, b.Plural))
	}
	if a, b := stored(before), stored(after); a != b {
		wrong = append(wrong, fmt.Errorf("stored version changed: %s -> %s", a, b))
	}
	for _, version := range before.Spec.Versions {
		now := validations.GetCRDVersionByName(after, version.Name)
		switch {
		case now == nil:
			wrong = append(wrong, fmt.Errorf("version removed: %s", version.Name))
		case version.Served && !now.Served:
			wrong = append(wrong, fmt.Errorf("version no longer served: %s", version.Name))
		case version.Subresources != nil && version.Subresources.Status != nil && (now.Subresources == nil || now.Subresources.Status == nil):
			wrong = append(wrong, fmt.Errorf("status is no longer a subresource: %s", version.Name))
		}
	}
	return wrong
}

func stored(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}
