package member

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// Cached configures the hub's cache of MemberClusters.
func Cached() cache.ByObject { return cache.ByObject{Transform: trim.Transform(share)} }

// share has the cached members share what most of them have in common, which garbage collections
// would otherwise mark one by one: 1,000 members with 100 templates have 200,000 names and
// revisions. Decoded lists take no more memory than they need.
func share(mc *v1alpha1.MemberCluster) {
	trim.Metadata(mc)
	s := &mc.Status
	s.Conditions = append(make([]metav1.Condition, 0, len(s.Conditions)), s.Conditions...)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		trim.Strings(&c.Type, &c.Reason, &c.Message, (*string)(&c.Status))
	}
	s.Templates = append(make([]v1alpha1.TemplateAvailability, 0, len(s.Templates)), s.Templates...)
	for i := range s.Templates {
		t := &s.Templates[i]
		trim.Strings(&t.Name, &t.Revision, &t.Reason, &t.Message)
	}
	trim.Strings(&s.AgentVersion)
}
