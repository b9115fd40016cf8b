package convert

import (
	"slices"
	"strings"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// TemplateRef names a template in TemplateCapacity.buckets_of.
func TemplateRef(name, revision string) string { return name + "@" + revision }

// ParseTemplateRef returns the name and the revision of a TemplateRef.
func ParseTemplateRef(ref string) (name, revision string) {
	name, revision, _ = strings.Cut(ref, "@")
	return name, revision
}

// BucketsOf returns the buckets of a template of a complete report.
func BucketsOf(r *fleetv1.CapacityReport, t *fleetv1.TemplateCapacity) []*fleetv1.Bucket {
	if t.GetBucketsOf() == "" {
		return t.GetBuckets()
	}
	i := slices.IndexFunc(r.GetTemplates(), func(o *fleetv1.TemplateCapacity) bool {
		return TemplateRef(o.GetName(), o.GetRevision()) == t.GetBucketsOf()
	})
	if i < 0 {
		return nil
	}
	return r.GetTemplates()[i].GetBuckets()
}
