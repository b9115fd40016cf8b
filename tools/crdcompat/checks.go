package main

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/validations"
)

// register adds what crdify does not look at. It takes each change that no check has
// looked at for a break: so a check puts back what it has judged.
func register(registry validations.Registry) {
	for name, judge := range map[string]func(a, b *apiextensionsv1.JSONSchemaProps) []error{
		"pattern": pattern, "rules": rules, "lists": lists, "null": nullable, "maps": additional,
	} {
		registry.Register(name, func(map[string]any) (validations.Validation, error) {
			return &check[apiextensionsv1.JSONSchemaProps]{name: name, judge: judge}, nil
		})
	}
	registry.Register("identity", func(map[string]any) (validations.Validation, error) {
		return &check[apiextensionsv1.CustomResourceDefinition]{name: "identity", judge: identity}, nil
	})
}

// check is one of crdify's, made of a function.
type check[T validations.Comparable] struct {
	name        string
	enforcement config.EnforcementPolicy
	judge       func(before, after *T) []error
}

// Name is Validation's.
func (c *check[T]) Name() string { return c.name }

// SetEnforcement is Validation's.
func (c *check[T]) SetEnforcement(policy config.EnforcementPolicy) { c.enforcement = policy }

// Compare is Comparator's.
func (c *check[T]) Compare(before, after *T) validations.ComparisonResult {
	return validations.HandleErrors(c.name, c.enforcement, c.judge(before, after)...)
}

// pattern may be taken away, and no more: whether one is wider than another can't be
// told.
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

// rules may be taken away, and said in other words. A new one is a break unless it is
// about a change (oldSelf): what is stored need not obey it.
//
// API servers ratchet: since 1.30 an update does not fail by a rule, pattern, enum or
// bound that a value fails which the update leaves as it is. That does not make a new
// rule harmless. A rule stands on an object or list, and any change within that has
// it asked again; a rule with messageExpression or one that counts is asked for a
// whole spec. What is created is not ratcheted, as when objects are restored from a
// backup. Nor are required fields, types, and the keys of lists.
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

// lists and maps keep their keys: by these objects are merged.
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

// nullable may be said of more.
func nullable(before, after *apiextensionsv1.JSONSchemaProps) (wrong []error) {
	if before.Nullable && !after.Nullable {
		wrong = append(wrong, fmt.Errorf("null is no longer allowed"))
	}
	before.Nullable, after.Nullable = false, false
	return wrong
}

// additional properties have a schema that is looked at by itself.
func additional(before, after *apiextensionsv1.JSONSchemaProps) []error {
	a, b := before.AdditionalProperties, after.AdditionalProperties
	if a != nil && b != nil && a.Schema != nil && b.Schema != nil {
		before.AdditionalProperties, after.AdditionalProperties = nil, nil
	}
	return nil
}

// identity of a CRD: how its objects are stored, and by which names they are found.
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
