package placement

import "fmt"

// TemplateKey names one revision of a template.
type TemplateKey struct {
	Name     string
	Revision string
}

// String is name@revision.
func (k TemplateKey) String() string { return fmt.Sprintf("%s@%s", k.Name, k.Revision) }

// Capacity is what a member last reported. It must not be changed once it was
// handed to Place: what was reckoned from it is remembered by its address.
type Capacity struct {
	// Sequence of the report, growing within an agent's instance.
	Sequence uint64
	// Nodes that take sessions at all.
	Nodes int32
	// AdmittedNamespaces by the member's administrator.
	AdmittedNamespaces []string
	// PodSecurity: the agent reports which of them enforce Pod Security, and
	// NotEnforced are those that don't. Nothing is placed by it.
	PodSecurity bool
	NotEnforced []string
	// Templates that the member has judged.
	Templates map[TemplateKey]TemplateCapacity
}

// TemplateCapacity is what a member says of one revision of a template.
type TemplateCapacity struct {
	Revision string
	// Available is whether it can run there at all, room or no room; Reason
	// (an Unavailable reason of the API) and Message say why not.
	Available       bool
	Reason, Message string
	// Buckets are the nodes that it may use.
	Buckets []Bucket
	// ImageNodes that it may use are known to have its image.
	ImageNodes int32
	// Overhead that each Pod takes there besides what its session asks for.
	Overhead Resources
}

// Bucket is a group of nodes with the same room left on each.
type Bucket struct {
	Nodes int32
	// Free on each node, "pods" included.
	Free Resources
}
