package assignment

import (
	"cmp"
	"slices"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// defaultMountPath of a home.
const defaultMountPath = "/home/user"

// Render returns the desired state of a session in a member, from the session, its template
// revision, the member's ingress domain and the Secrets that are sent with it, without their
// contents: see secret.Set.Payload.
func Render(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, ingressDomain string, secrets secret.Set) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{MayAddNode: status.MayAddNode(s)}
	a.Namespace, a.Name = s.Namespace, v1alpha1.AssignmentName(s.Name, s.UID)
	a.Spec = v1alpha1.SessionAssignmentSpec{
		Session:          v1alpha1.SessionReference{Namespace: s.Namespace, Name: s.Name, UID: s.UID},
		User:             s.Spec.User,
		Template:         s.Spec.Template,
		TemplateRevision: s.Status.TemplateRevision,
		RunState:         runState(s),
		FailoverMode:     status.FailoverMode(s, t),
		Attempt:          s.Status.Attempt,
		Timeout:          status.EffectiveTimeout(s, t),
		IdleTimeout:      t.IdleTimeout.For(s.Spec.IdleTimeout),
		TimeUsed:         s.Status.TimeUsed,
		Host:             a.Name + "." + ingressDomain,
		Secrets:          secrets.References(),
		Desktop:          desktop(s, t, secrets),
	}
	if p := s.Status.Placement; p != nil {
		a.Spec.Epoch, a.Spec.Lapse = p.Epoch, p.Lapse
	}
	return a
}

func desktop(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, secrets secret.Set) v1alpha1.Desktop {
	return v1alpha1.Desktop{
		Image:             t.Image,
		ImagePullPolicy:   t.ImagePullPolicy,
		ImagePullSecrets:  secrets.PullSecrets(t),
		Command:           t.Command,
		Args:              t.Args,
		Port:              t.Port,
		Protocol:          t.Protocol,
		Path:              t.Path,
		Resources:         s.Status.Resources,
		Env:               merged(t.Env, sessionEnv(s, t), func(e v1alpha1.EnvVar) string { return e.Name }),
		Files:             merged(t.Files, sessionFiles(s, t), func(f v1alpha1.ConfigFile) string { return f.Name }),
		ConfigMountPath:   t.ConfigMountPath,
		Secrets:           secrets.Uses(t),
		Access:            secrets.AssignedAccess(t),
		Activity:          t.Activity,
		StartTimeout:      t.StartTimeout,
		SharedMemory:      t.SharedMemory,
		PriorityClassName: t.PriorityClassName,
		RuntimeClassName:  t.RuntimeClassName,
		NodeSelector:      t.NodeSelector,
		Tolerations:       t.Tolerations,
		IngressClassName:  t.IngressClassName,
		TLSSecretName:     t.TLSSecretName,
		NetworkPolicy:     t.NetworkPolicy,
		Home:              assignedHome(s, t),
	}
}

// merged returns the template's entries, replaced by the session's of the same name, and
// then the session's others.
func merged[T any](template, session []T, name func(T) string) []T {
	if len(session) == 0 {
		return template
	}
	out := slices.Clone(template)
	for _, e := range session {
		same := func(other T) bool { return name(other) == name(e) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = e
		} else {
			out = append(out, e)
		}
	}
	return out
}

// assignedHome returns the home of the desktop, with the session's claim.
func assignedHome(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.AssignedHome {
	h := v1alpha1.AssignedHome{
		Mode: t.Home.Mode, Size: t.Home.Size, StorageClassName: t.Home.StorageClassName, AccessMode: t.Home.AccessMode,
		Retention: t.Home.Retention, RetentionTime: t.Home.RetentionTime, MountPath: t.Home.MountPath,
	}
	switch t.Home.Mode {
	case v1alpha1.HomePerSession:
		h.ClaimName = v1alpha1.AssignmentName(s.Name, s.UID)
		h.Retention = cmp.Or(h.Retention, v1alpha1.RetentionDelete)
	case v1alpha1.HomePerUser:
		h.ClaimName = v1alpha1.HomeName(s.Namespace, s.Spec.User, s.Spec.Template)
		h.Retention = v1alpha1.RetentionRetain
	default:
		return v1alpha1.AssignedHome{Mode: v1alpha1.HomeNone}
	}
	if s.Status.Home != nil {
		h.ClaimName = s.Status.Home.ClaimName
	}
	h.MountPath = cmp.Or(h.MountPath, defaultMountPath)
	return h
}

// runState returns the desired run state: an idle session keeps its home and its placement,
// and has no Pod.
func runState(s *v1alpha1.VDISession) v1alpha1.OperatingMode {
	if p := s.Status.Placement; p != nil && p.Idle {
		return v1alpha1.ModeSuspended
	}
	return v1alpha1.ModeRunning
}
