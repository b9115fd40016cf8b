package messages

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Progress is how far a step is.
type Progress string

// The progress of a step. Each is also a class of the stylesheet.
const (
	Done    Progress = "done"
	Current Progress = "current"
	Problem Progress = "problem"
	Next    Progress = "next"
)

// Step is one of the steps to a desktop.
type Step struct {
	// Name of the step, for users.
	Name string
	// Progress of the step.
	Progress Progress
}

// stages are the steps with the conditions that must be True for each.
var stages = []struct {
	name       string
	conditions []string
}{
	{"Accepted", []string{v1alpha1.ConditionAccepted}},
	{"Place", []string{v1alpha1.ConditionScheduled, v1alpha1.ConditionAssigned}},
	{"Files", []string{v1alpha1.ConditionHomeReady}},
	{"Start", []string{v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady}},
}

// steps returns the steps of a session that does not run. The first that is not done is the current one,
// or the problem of a session that failed.
func steps(s *v1alpha1.VDISession, state State) []Step {
	out, reached := make([]Step, 0, len(stages)), false
	for _, stage := range stages {
		step := Step{Name: stage.name, Progress: Next}
		switch {
		case reached:
		case allTrue(s.Status.Conditions, stage.conditions):
			step.Progress = Done
		default:
			step.Progress, reached = Current, true
			if state == Failed {
				step.Progress = Problem
			}
		}
		out = append(out, step)
	}
	return out
}

func allTrue(conditions []metav1.Condition, names []string) bool {
	for _, name := range names {
		if !meta.IsStatusConditionTrue(conditions, name) {
			return false
		}
	}
	return true
}
