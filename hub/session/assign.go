package session

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// defaultMountPath of a home whose template does not say.
const defaultMountPath = "/home/user"

// Assignment is the hub's word to a member about a session, made of the
// session, the template revision that it runs and the member's ingress domain
// alone.
func Assignment(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, ingressDomain string) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
	a.Namespace, a.Name = s.Namespace, v1alpha1.AssignmentName(s.Name, s.UID)
	a.Spec = v1alpha1.SessionAssignmentSpec{
		Session:          v1alpha1.SessionReference{Namespace: s.Namespace, Name: s.Name, UID: s.UID},
		User:             s.Spec.User,
		Template:         s.Spec.Template,
		TemplateRevision: s.Status.TemplateRevision,
		RunState:         runState(s),
		FailoverMode:     failoverMode(s, t),
		Timeout:          effectiveTimeout(s, t),
		Host:             a.Name + "." + ingressDomain,
		Desktop:          desktop(s, t),
	}
	if p := s.Status.Placement; p != nil {
		a.Spec.Epoch = p.Epoch
	}
	return a
}

func desktop(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.Desktop {
	return v1alpha1.Desktop{
		Image:            t.Image,
		ImagePullPolicy:  t.ImagePullPolicy,
		ImagePullSecrets: t.ImagePullSecrets,
		Command:          t.Command,
		Args:             t.Args,
		Port:             t.Port,
		Protocol:         t.Protocol,
		Path:             t.Path,
		Resources:        s.Status.Resources,
		Env:              t.Env,
		RuntimeClassName: t.RuntimeClassName,
		NodeSelector:     t.NodeSelector,
		Tolerations:      t.Tolerations,
		IngressClassName: t.IngressClassName,
		Home:             home(s, t),
	}
}

func home(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.AssignedHome {
	h := v1alpha1.AssignedHome{Mode: v1alpha1.HomeNone}
	switch t.Home.Mode {
	case v1alpha1.HomePerSession:
		h.ClaimName = v1alpha1.AssignmentName(s.Name, s.UID)
	case v1alpha1.HomePerUser:
		h.ClaimName = v1alpha1.HomeName(s.Namespace, s.Spec.User, s.Spec.Template)
	default:
		return h
	}
	h.Mode, h.Size = t.Home.Mode, t.Home.Size
	h.StorageClassName, h.MountPath = t.Home.StorageClassName, t.Home.MountPath
	if h.MountPath == "" {
		h.MountPath = defaultMountPath
	}
	return h
}

// runState is what the member should do: a session whose time is over keeps
// its home and its place, but not its Pod.
func runState(s *v1alpha1.VDISession) v1alpha1.OperatingMode {
	ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	if s.Spec.OperatingMode == v1alpha1.ModeSuspended || (ready != nil && ready.Reason == v1alpha1.ReasonTimeExpired) {
		return v1alpha1.ModeSuspended
	}
	return v1alpha1.ModeRunning
}

// failoverMode by default follows the template's home (DESIGN section 7): what
// has no home may start anew elsewhere, what has one waits for it.
func failoverMode(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.FailoverMode {
	switch {
	case s.Spec.Failover.Mode != "":
		return s.Spec.Failover.Mode
	case t.Home.Mode == v1alpha1.HomePerSession, t.Home.Mode == v1alpha1.HomePerUser:
		return v1alpha1.FailoverHold
	default:
		return v1alpha1.FailoverRestart
	}
}

// effectiveTimeout is the session's, or the template's default, and never more
// than the template's maximum.
func effectiveTimeout(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.Duration {
	timeout := s.Spec.Timeout
	if timeout == "" {
		timeout = t.Timeout.Default
	}
	most, limited := t.Timeout.Max.Value()
	if d, ok := timeout.Value(); limited && (!ok || d > most) {
		return t.Timeout.Max
	}
	return timeout
}

// expiry is when a session's time is over, to the second, and false if it
// never is.
func expiry(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (time.Time, bool) {
	d, ok := effectiveTimeout(s, t).Value()
	if !ok || d == 0 || s.Status.StartTime == nil {
		return time.Time{}, false
	}
	return s.Status.StartTime.Add(d + time.Second - time.Nanosecond).Truncate(time.Second), true
}
