package placement

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
)

// TemplateKey names one revision of a template.
type TemplateKey struct {
	Name     string
	Revision string
}

// String returns name@revision.
func (k TemplateKey) String() string { return fmt.Sprintf("%s@%s", k.Name, k.Revision) }

// Capacity is a member's last capacity report. It must not be changed after it was passed
// to Place: results computed from it are cached by its address.
type Capacity struct {
	// Sequence of the report; it increases within an instance of the agent.
	Sequence uint64
	// Nodes that accept sessions.
	Nodes int32
	// AdmittedNamespaces are those that the member's administrator admits.
	AdmittedNamespaces sets.Set[string]
	// PodSecurity is set if the agent reports which of them enforce Pod Security;
	// NotEnforced are those that don't. Placement ignores both.
	PodSecurity bool
	NotEnforced []string
	// Templates that the member has evaluated.
	Templates map[TemplateKey]TemplateCapacity
}

// TemplateCapacity is what a member reports about one revision of a template.
type TemplateCapacity struct {
	// Available reports whether it can run there at all, whatever the free capacity; Reason
	// (an Unavailable reason of the API) and Message explain why not.
	Available       bool
	Reason, Message string
	// Buckets are the nodes that it may use.
	Buckets []Bucket
	// BucketsOf is the template whose buckets it has; zero if it has its own. Placement
	// ignores it.
	BucketsOf TemplateKey
	// ImageNodes is how many of these nodes are known to have its image.
	ImageNodes int32
	// Overhead is what each Pod uses there in addition to its session's request.
	Overhead Resources
	// Slots for sessions with the template's default resources, and Bytes of the report about
	// it. Placement ignores both.
	Slots int32
	Bytes int
}

// Bucket is a group of nodes with equal free capacity.
type Bucket struct {
	Nodes int32
	// Free on each node, "pods" included.
	Free Resources
}
