package assignment

import (
	"cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// defaultMountPath of a home whose template does not say.
const defaultMountPath = "/home/user"

// Render returns the desired state of a session in a member, made of the
// session, the template revision that it runs, the member's ingress domain and
// the Secrets that travel with it alone. What is in the Secrets is not in it:
// see Secrets.Payload.
func Render(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, ingressDomain string, secrets secret.Set) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
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
		IdleTimeout:      status.EffectiveLimit(s.Spec.IdleTimeout, t.IdleTimeout),
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
		Env:               merged(t.Env, ownEnv(s, t), func(e v1alpha1.EnvVar) string { return e.Name }),
		Files:             merged(t.Files, ownFiles(s, t), func(f v1alpha1.ConfigFile) string { return f.Name }),
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

// merged are the template's entries in its order, with the session's in the
// stead of those of the same name, and then what the session has besides.
func merged[T any](template, session []T, name func(T) string) []T {
	if len(session) == 0 {
		return template
	}
	own := make(map[string]T, len(session))
	for _, e := range session {
		own[name(e)] = e
	}
	out := make([]T, 0, len(template)+len(session))
	for _, e := range template {
		if mine, ok := own[name(e)]; ok {
			e = mine
			delete(own, name(e))
		}
		out = append(out, e)
	}
	for _, e := range session {
		if _, left := own[name(e)]; left {
			out = append(out, e)
		}
	}
	return out
}

// assignedHome of the desktop, with the claim that the session was given.
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

// runState is what the member should do: a session that is idle keeps its home
// and its place, but not its Pod.
func runState(s *v1alpha1.VDISession) v1alpha1.OperatingMode {
	if p := s.Status.Placement; p != nil && p.Idle {
		return v1alpha1.ModeSuspended
	}
	return v1alpha1.ModeRunning
}
