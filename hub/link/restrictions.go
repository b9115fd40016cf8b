package link

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const (
	// maxRestrictions are the entries of each list of restrictions, and
	// maxRestriction the bytes of one.
	maxRestrictions = 64
	maxRestriction  = 253
)

// boundRestrictions refuses restrictions beyond what an agent accepts as settings.
func boundRestrictions(r *fleetv1.Restrictions) error {
	for name, list := range map[string][]string{
		"host_suffixes": r.GetHostSuffixes(), "image_prefixes": r.GetImagePrefixes(),
		"runtime_classes": r.GetRuntimeClasses(), "priority_classes": r.GetPriorityClasses(),
	} {
		if len(list) > maxRestrictions {
			return fmt.Errorf("%w: restrictions: %d %s, more than %d", errProtocol, len(list), name, maxRestrictions)
		}
		for _, entry := range list {
			if err := convert.CheckWord("restrictions."+name, entry, maxRestriction); err != nil {
				return fmt.Errorf("%w: %w", errProtocol, err)
			}
		}
	}
	return nil
}

func restrictionsFromWire(r *fleetv1.Restrictions) *v1alpha1.MemberRestrictions {
	if r == nil {
		return nil
	}
	return &v1alpha1.MemberRestrictions{
		HostSuffixes: r.GetHostSuffixes(), ImagePrefixes: r.GetImagePrefixes(),
		RuntimeClasses: r.GetRuntimeClasses(), PriorityClasses: r.GetPriorityClasses(),
		AllowOpenNetwork: r.GetOpenNetwork(), AllowPrivateEgress: r.GetPrivateEgress(),
		AllowLinkLocalEgress: r.GetLinkLocalEgress(), AllowControlPlane: r.GetControlPlane(),
	}
}
