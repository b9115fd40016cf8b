package version

import "slices"

// Range is the protocol versions that one end of the link supports.
type Range struct{ Min, Max int32 }

// Supported returns the versions that this build supports.
func Supported() Range { return Range{Min: 1, Max: 1} }

// Highest returns the highest version that both ends support, and whether there
// is one.
func (r Range) Highest(other Range) (int32, bool) {
	highest := min(r.Max, other.Max)
	return highest, highest >= max(r.Min, other.Min)
}

// Contains reports whether the range includes a version.
func (r Range) Contains(version int32) bool { return version >= r.Min && version <= r.Max }

// CapacityChanges is the capability of hubs that accept capacity reports which
// carry only what changed.
const CapacityChanges = "capacity-changes"

// Door is the capability of agents whose member has a door: they accept DoorConfig.
const Door = "door"

// FirstMissing returns the first required capability that is not among the known
// ones, and "" if all are.
func FirstMissing(required, known []string) string {
	for _, capability := range required {
		if !slices.Contains(known, capability) {
			return capability
		}
	}
	return ""
}
