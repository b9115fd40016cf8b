package placement

import (
	"fmt"
	"strings"
	"unique"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
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
	AdmittedNamespaces Namespaces
	// PodSecurity is set if the agent reports which of them enforce Pod Security;
	// NotEnforced are those that don't. Placement ignores both.
	PodSecurity bool
	NotEnforced []string
	// Templates that the member has evaluated.
	Templates map[TemplateKey]TemplateCapacity
	// NodeGroups of the member; nil if it has none.
	NodeGroups []NodeGroup
	// Buffers of the member, without their slots. Placement ignores them: what they hold is free.
	Buffers []v1alpha1.BufferStatus
}

// ByTemplate returns the templates of a report, none for no report.
func (c *Capacity) ByTemplate() map[TemplateKey]TemplateCapacity {
	if c == nil {
		return nil
	}
	return c.Templates
}

// TemplateCapacity is what a member reports about one revision of a template.
type TemplateCapacity struct {
	// Available reports whether it can run there at all, whatever the free capacity; Reason
	// (an Unavailable reason of the API) and Message explain why not.
	Available bool
	// ImageNodes is how many of the nodes that it may use are known to have its image.
	ImageNodes int32
	// Slots for sessions with the template's default resources, GrowableSlots for such on nodes
	// that may still be added, and Bytes of the report about it. Placement ignores them.
	Slots, GrowableSlots, Bytes int32
	Reason, Message             string
	// Buckets are the nodes that it may use.
	Buckets []Bucket
	// Growth is the capacity on nodes that do not exist yet; nil if no node group of the member
	// adds any that it may use.
	Growth *Growth
	// BucketsOf is the template whose buckets and growth it has; zero if it has its own.
	// Placement ignores it.
	BucketsOf unique.Handle[TemplateKey]
	// Overhead is what each Pod uses there in addition to its session's request.
	Overhead Resources
}

// Bucket is a group of nodes with equal free capacity.
type Bucket struct {
	Nodes int32
	// Free on each node, "pods" included.
	Free Amounts
}

// Namespaces is a set of namespaces; the zero value is empty. Equal sets, with their names in the
// same order, share their memory, so that a decision looks into the set of a thousand members once.
type Namespaces struct{ names unique.Handle[string] }

// NewNamespaces returns the set of some names.
func NewNamespaces(names ...string) Namespaces {
	if len(names) == 0 {
		return Namespaces{}
	}
	return Namespaces{unique.Make("/" + strings.Join(names, "/") + "/")}
}

// Has reports whether a namespace is in the set.
func (n Namespaces) Has(name string) bool {
	return n != Namespaces{} && strings.Contains(n.names.Value(), "/"+name+"/")
}
