package fleet

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const saidFenced = "it was declared fenced"

// fence is an operator's word that nothing runs in a member any more.
type fence struct {
	// declared is what he said; nil: nothing.
	declared *v1alpha1.FencedDeclaration
	// other: it is said of another cluster than the member's.
	other bool
	// alive: the member was heard of since, or a moment before.
	alive bool
}

// declare takes what the spec says; alive is whether the member's agent is heard.
func (f *fence) declare(d *v1alpha1.FencedDeclaration, alive bool) {
	if equality.Semantic.DeepEqual(f.declared, d) {
		return
	}
	f.declared, f.alive = d.DeepCopy(), d != nil && alive
}

// holds is whether it counts.
func (f *fence) holds() bool { return f.declared != nil && !f.other && !f.alive }
