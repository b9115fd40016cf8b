package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetCondition stamps the generation that a condition speaks of and sets it;
// it reports whether anything changed.
func SetCondition(conditions *[]metav1.Condition, generation int64, c metav1.Condition) bool {
	c.ObservedGeneration = generation
	return meta.SetStatusCondition(conditions, c)
}
