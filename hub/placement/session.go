package placement

import "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"

// RequestFor returns the placement request, without resources, of a session with a template
// revision and a policy, which may be nil.
func RequestFor(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, revision string, policy *v1alpha1.PlacementPolicy) Request {
	req := Request{
		UID: s.UID, Namespace: s.Namespace, Name: s.Name, User: s.Spec.User,
		Template:                TemplateKey{Name: s.Spec.Template, Revision: revision},
		TemplateClusterSelector: t.ClusterSelector,
		RequiredRegions:         s.Spec.Placement.RequiredRegions,
		PreferredRegions:        s.Spec.Placement.PreferredRegions,
		ClusterSelector:         s.Spec.Placement.ClusterSelector,
		ClusterTolerations:      s.Spec.Placement.ClusterTolerations,
		Priority:                s.Spec.Placement.Priority,
	}
	if policy != nil {
		req.PolicyName, req.Policy = policy.Name, &policy.Spec
	}
	return req
}
