package assignment

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// annotationGeneration has the generation of the agent's last write. A different generation
// means that the spec was edited since. Hashes of the spec would not do: an API server with
// another version of the CRD drops fields.
const annotationGeneration = "vdi.kasm.io/stored-generation"

// editedHash is reported instead of the hash of an edited spec, so that the hub sends its
// order again: no spec has this hash.
const editedHash = "edited"

// edited reports whether the spec was changed since the agent stored it.
func edited(a *v1alpha1.SessionAssignment) bool {
	return a.Annotations[annotationGeneration] != strconv.FormatInt(a.Generation, 10)
}

func setGeneration(a *v1alpha1.SessionAssignment, generation int64) {
	metav1.SetMetaDataAnnotation(&a.ObjectMeta, annotationGeneration, strconv.FormatInt(generation, 10))
}

// nextGeneration returns the generation after an update.
func nextGeneration(before, after *v1alpha1.SessionAssignment) int64 {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return before.Generation
	}
	return before.Generation + 1
}

// correctGeneration corrects the annotation after a write with an unexpected effect, such
// as none because the API server dropped the field that differed. The hub would otherwise
// repeat the order for ever.
func (s applier) correctGeneration(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	if !edited(a) {
		return nil
	}
	before := a.DeepCopy()
	setGeneration(a, a.Generation)
	metricWrites.WithLabelValues("patch").Inc()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.Client.Patch(ctx, a, patch); err != nil {
		return fmt.Errorf("recording the generation: %w", err)
	}
	return nil
}
