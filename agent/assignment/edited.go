package assignment

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// annotationGeneration is the generation that an assignment has got by our last
// write. The API server raises it with every change of the spec and with
// nothing else, so that another one means that somebody else has edited the
// spec. Hashes of the spec would not do: what comes back from an API server
// whose definition of the kind is older lacks fields, and another version of
// the agent may reckon them otherwise.
const annotationGeneration = "vdi.kasm.io/stored-generation"

// editedHash is reported in the place of the hash of a spec that somebody has
// edited. It can be no spec's, and so the hub sends what it wants again.
const editedHash = "edited"

// edited reports whether somebody else has changed the spec since it was
// stored. Nothing is known of one stored by an agent that did not write the
// annotation, or of which somebody took it away.
func edited(a *v1alpha1.SessionAssignment) bool {
	stored, ok := a.Annotations[annotationGeneration]
	return ok && stored != strconv.FormatInt(a.Generation, 10)
}

func setGeneration(a *v1alpha1.SessionAssignment, generation int64) {
	set(&a.Annotations, annotationGeneration, strconv.FormatInt(generation, 10))
}

// nextGeneration is what an update will make of the generation.
func nextGeneration(before, after *v1alpha1.SessionAssignment) int64 {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return before.Generation
	}
	return before.Generation + 1
}

// correctGeneration mends the annotation where the API server made something
// else of the write than was expected, such as nothing, because it does not
// know the field that differed. Left wrong, the hub would send it for ever.
func (s *Store) correctGeneration(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	if !edited(a) {
		return nil
	}
	before := a.DeepCopy()
	setGeneration(a, a.Generation)
	metricWrites.WithLabelValues("patch").Inc()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.Client.Patch(ctx, a, patch); err != nil {
		return fmt.Errorf("noting the generation: %w", err)
	}
	return nil
}
