package convert

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// ReportToWire converts an assignment, as stored in a member, to a report.
//
// The hash is of the spec; a status of an earlier one has no observed generation on the
// wire, so that the hub does not accept it as the outcome of this spec.
func ReportToWire(a *v1alpha1.SessionAssignment) *fleetv1.AssignmentReport {
	w := &fleetv1.AssignmentReport{
		SessionUid:       string(a.Spec.Session.UID),
		Namespace:        a.Namespace,
		Name:             a.Name,
		Epoch:            a.Spec.Epoch,
		SpecHash:         a.Annotations[v1alpha1.AnnotationSpecHash],
		Status:           statusToWire(&a.Status),
		SessionNamespace: a.Spec.Session.Namespace,
		SessionName:      a.Spec.Session.Name,
		Proof:            a.Spec.Proof,
	}
	if a.Generation > 0 && a.Status.ObservedGeneration < a.Generation {
		w.Status.ObservedGeneration = 0
	}
	return w
}

// ReportFromWire converts a report to an assignment of the member cache: namespace, name,
// the spec hash as annotation, the session, the epoch, its proof and the status. A report
// has nothing else of the spec.
func ReportFromWire(w *fleetv1.AssignmentReport) (*v1alpha1.SessionAssignment, error) {
	if err := checkReport(w); err != nil {
		return nil, err
	}
	status, err := statusFromWire(w.GetStatus())
	if err != nil {
		return nil, fmt.Errorf("status.%w", err)
	}
	return &v1alpha1.SessionAssignment{
		ObjectMeta: metaFromWire(w.Namespace, w.Name, w.SpecHash),
		Spec: v1alpha1.SessionAssignmentSpec{
			Session: v1alpha1.SessionReference{
				Namespace: w.SessionNamespace, Name: w.SessionName, UID: types.UID(w.SessionUid),
			},
			Epoch: w.Epoch,
			Proof: w.Proof,
		},
		Status: status,
	}, nil
}

func statusToWire(s *v1alpha1.SessionAssignmentStatus) *fleetv1.AssignmentStatus {
	w := &fleetv1.AssignmentStatus{
		ObservedGeneration: s.ObservedGeneration,
		State:              string(s.State),
		Reason:             s.Reason,
		Message:            s.Message,
		NodeName:           s.NodeName,
		Lapse:              s.Lapse,
		Guarded:            s.Guarded,
	}
	if s.StartTime != nil {
		w.StartTime = timestamppb.New(s.StartTime.Time)
	}
	if s.RunningSince != nil {
		w.RunningSince = timestamppb.New(s.RunningSince.Time)
	}
	if s.IdleSince != nil {
		w.IdleSince = timestamppb.New(s.IdleSince.Time)
	}
	w.TimeUsed = durationToWire(s.TimeUsed)
	w.MissingSecrets = s.MissingSecrets
	if f := s.Failure; f != nil {
		w.Failure = &fleetv1.Failure{Attempt: f.Attempt, Reason: f.Reason, Message: f.Message}
	}
	if c := s.Config; c != nil {
		w.ConfigName, w.ConfigHash = c.Name, c.Hash
	}
	for i := range s.Conditions {
		w.Conditions = append(w.Conditions, conditionToWire(&s.Conditions[i]))
	}
	return w
}

func statusFromWire(w *fleetv1.AssignmentStatus) (v1alpha1.SessionAssignmentStatus, error) {
	texts := &sentences{left: MaxMessages}
	s := v1alpha1.SessionAssignmentStatus{
		ObservedGeneration: w.GetObservedGeneration(),
		State:              v1alpha1.AssignmentState(Printable(w.GetState())),
		Reason:             Printable(w.GetReason()),
		Message:            texts.next(w.GetMessage()),
		NodeName:           Printable(w.GetNodeName()),
		Lapse:              max(w.GetLapse(), 0),
		Guarded:            w.GetGuarded(),
	}
	if w.GetStartTime() != nil {
		t, err := timeFromWire("start_time", w.GetStartTime())
		if err != nil {
			return s, err
		}
		s.StartTime = &t
	}
	if w.GetRunningSince() != nil {
		t, err := timeFromWire("running_since", w.GetRunningSince())
		if err != nil {
			return s, err
		}
		s.RunningSince = &t
	}
	if w.GetIdleSince() != nil {
		t, err := timeFromWire("idle_since", w.GetIdleSince())
		if err != nil {
			return s, err
		}
		s.IdleSince = &t
	}
	used, err := durationFromWire("time_used", w.GetTimeUsed())
	if err != nil {
		return s, err
	}
	s.TimeUsed = used
	for _, name := range w.GetMissingSecrets() {
		s.MissingSecrets = append(s.MissingSecrets, Printable(name))
	}
	if f := w.GetFailure(); f != nil {
		s.Failure = &v1alpha1.Failure{Attempt: f.GetAttempt(), Reason: Printable(f.GetReason()), Message: texts.next(f.GetMessage())}
	}
	if w.GetConfigName() != "" {
		s.Config = &v1alpha1.AssignedConfig{Name: Printable(w.GetConfigName()), Hash: Printable(w.GetConfigHash())}
	}
	s.Conditions = slices.Grow(s.Conditions, len(w.GetConditions()))
	for i, c := range w.GetConditions() {
		condition, err := conditionFromWire(c, texts)
		if err != nil {
			return s, fmt.Errorf("conditions[%d].%w", i, err)
		}
		s.Conditions = append(s.Conditions, condition)
	}
	return s, nil
}

func conditionToWire(c *metav1.Condition) *fleetv1.Condition {
	w := &fleetv1.Condition{
		Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message,
		ObservedGeneration: c.ObservedGeneration,
	}
	if !c.LastTransitionTime.IsZero() {
		w.LastTransitionTime = timestamppb.New(c.LastTransitionTime.Time)
	}
	return w
}

func conditionFromWire(w *fleetv1.Condition, texts *sentences) (metav1.Condition, error) {
	c := metav1.Condition{
		Type: Printable(w.GetType()), Status: metav1.ConditionStatus(w.GetStatus()), Reason: Printable(w.GetReason()),
		Message: texts.next(w.GetMessage()), ObservedGeneration: w.GetObservedGeneration(),
	}
	switch {
	case c.Type == "":
		return c, fmt.Errorf("type: missing")
	case c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse && c.Status != metav1.ConditionUnknown:
		return c, fmt.Errorf("status: %q is none of True, False, Unknown", w.GetStatus())
	case w.GetLastTransitionTime() == nil:
		return c, nil
	}
	var err error
	c.LastTransitionTime, err = timeFromWire("last_transition_time", w.GetLastTransitionTime())
	return c, err
}

// timeFromWire truncates to seconds, which is all that Kubernetes stores.
func timeFromWire(field string, w *timestamppb.Timestamp) (metav1.Time, error) {
	if err := w.CheckValid(); err != nil {
		return metav1.Time{}, fmt.Errorf("%s: %w", field, err)
	}
	return metav1.Unix(w.GetSeconds(), 0), nil
}

// sentences truncates the messages of one report, each and in total.
type sentences struct{ left int }

func (s *sentences) next(text string) string {
	text = Sentence(text, min(MaxMessage, s.left))
	s.left -= len(text)
	return text
}
