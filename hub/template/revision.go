package template

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// templateSet returns every template revision that agents must evaluate: the current one of
// each template, and each earlier one that is still kept for sessions. Unreadable ones are
// left out, and reported.
func templateSet(templates []v1alpha1.VDITemplate, kept []appsv1.ControllerRevision) (set *fleetv1.TemplateSet, current map[string]string, unreadable error) {
	current = make(map[string]string, len(templates))
	named := map[[2]string]*fleetv1.TemplateRequirements{}
	for i := range templates {
		t := &templates[i]
		revision, err := v1alpha1.RevisionOf(&t.Spec)
		if err != nil {
			unreadable = errors.Join(unreadable, err)
			continue
		}
		current[t.Name] = revision
		named[[2]string{t.Name, revision}] = requirements(t.Name, revision, &t.Spec)
	}
	for i := range kept {
		name, revision, spec, err := ReadRevision(&kept[i])
		if err != nil {
			unreadable = errors.Join(unreadable, err)
			continue
		}
		named[[2]string{name, revision}] = requirements(name, revision, spec)
	}
	set = &fleetv1.TemplateSet{Templates: slices.Collect(maps.Values(named))}
	slices.SortFunc(set.Templates, func(a, b *fleetv1.TemplateRequirements) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetRevision(), b.GetRevision()))
	})
	return set, current, unreadable
}

// Labels of the ControllerRevisions that store template revisions.
const (
	LabelTemplate = "vdi.kasm.io/template"
	LabelRevision = "vdi.kasm.io/template-revision"
)

// RevisionName returns the name of the ControllerRevision that stores a revision.
func RevisionName(template, revision string) string { return template + "-" + revision }

// ReadRevision returns the template spec that a ControllerRevision stores.
func ReadRevision(cr *appsv1.ControllerRevision) (template, revision string, spec *v1alpha1.TemplateSpec, err error) {
	spec = &v1alpha1.TemplateSpec{}
	if err := json.Unmarshal(cr.Data.Raw, spec); err != nil {
		return "", "", nil, fmt.Errorf("reading template revision %s: %w", cr.Name, err)
	}
	return cr.Labels[LabelTemplate], cr.Labels[LabelRevision], spec, nil
}

func requirements(name, revision string, spec *v1alpha1.TemplateSpec) *fleetv1.TemplateRequirements {
	r := &fleetv1.TemplateRequirements{
		Name:             name,
		Revision:         revision,
		Resources:        map[string]string{},
		NodeSelector:     spec.NodeSelector,
		RuntimeClassName: spec.RuntimeClassName,
		IngressClassName: spec.IngressClassName,
		Home:             spec.Home.Mode == v1alpha1.HomePerSession || spec.Home.Mode == v1alpha1.HomePerUser,
		StorageClassName: spec.Home.StorageClassName,
		Image:            spec.Image,

		PriorityClassName: spec.PriorityClassName,
		NetworkPolicy: &fleetv1.NetworkPolicy{
			Mode: string(spec.NetworkPolicy.Mode), EgressCidrs: spec.NetworkPolicy.EgressCIDRs,
		},
	}
	for res, q := range spec.Resources.For(nil) {
		r.Resources[string(res)] = q.String()
	}
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		r.Tolerations = append(r.Tolerations, &fleetv1.Toleration{
			Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect), TolerationSeconds: t.TolerationSeconds,
		})
	}
	return r
}
