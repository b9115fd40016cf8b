package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// AssignmentToWire converts an assignment to its wire type. The spec hash is the
// annotation's, or computed if there is none. A malformed Timeout or TimeUsed is omitted,
// as v1alpha1.Duration reads it.
func AssignmentToWire(a *v1alpha1.SessionAssignment) *fleetv1.Assignment {
	hash := a.Annotations[v1alpha1.AnnotationSpecHash]
	if hash == "" {
		hash = SpecHash(&a.Spec)
	}
	s := &a.Spec
	return &fleetv1.Assignment{
		SessionUid:       string(s.Session.UID),
		SessionNamespace: s.Session.Namespace,
		SessionName:      s.Session.Name,
		Namespace:        a.Namespace,
		Name:             a.Name,
		Epoch:            s.Epoch,
		SpecHash:         hash,
		User:             s.User,
		Template:         s.Template,
		TemplateRevision: s.TemplateRevision,
		RunState:         string(s.RunState),
		FailoverMode:     string(s.FailoverMode),
		Timeout:          durationToWire(s.Timeout),
		TimeUsed:         durationToWire(s.TimeUsed),
		Host:             s.Host,
		Desktop:          desktopToWire(&s.Desktop),
		Attempt:          s.Attempt,
		IdleTimeout:      durationToWire(s.IdleTimeout),
		Secrets:          payloadToWire(s.Secrets, a.Payload),
		Proof:            s.Proof,
		Lapse:            s.Lapse,
		Traceparent:      a.Annotations[v1alpha1.AnnotationTraceparent],
		MayAddNode:       a.MayAddNode,
	}
}

// AssignmentFromWire converts an assignment from its wire type, with the spec hash as
// annotation. The error names the field that is malformed.
func AssignmentFromWire(w *fleetv1.Assignment) (*v1alpha1.SessionAssignment, error) {
	if err := checkAssignment(w); err != nil {
		return nil, err
	}
	timeout, err := durationFromWire("timeout", w.Timeout)
	if err != nil {
		return nil, err
	}
	used, err := durationFromWire("time_used", w.TimeUsed)
	if err != nil {
		return nil, err
	}
	idle, err := durationFromWire("idle_timeout", w.IdleTimeout)
	if err != nil {
		return nil, err
	}
	desktop, err := desktopFromWire(w.GetDesktop())
	if err != nil {
		return nil, fmt.Errorf("desktop.%w", err)
	}
	references, payload, err := payloadFromWire(w.Secrets)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.SessionAssignment{
		ObjectMeta: traced(metaFromWire(w.Namespace, w.Name, w.SpecHash), w.Traceparent),
		Spec: v1alpha1.SessionAssignmentSpec{
			Session: v1alpha1.SessionReference{
				Namespace: w.SessionNamespace, Name: w.SessionName, UID: types.UID(w.SessionUid),
			},
			Epoch:            w.Epoch,
			User:             w.User,
			Template:         w.Template,
			TemplateRevision: w.TemplateRevision,
			RunState:         v1alpha1.OperatingMode(w.RunState),
			FailoverMode:     v1alpha1.FailoverMode(w.FailoverMode),
			Timeout:          timeout,
			TimeUsed:         used,
			Host:             w.Host,
			Desktop:          desktop,
			Attempt:          w.Attempt,
			IdleTimeout:      idle,
			Secrets:          references,
			Proof:            w.Proof,
			Lapse:            max(w.Lapse, 0),
		},
		Payload:    payload,
		MayAddNode: w.MayAddNode,
	}, nil
}

// checkIdentity begins the checks of an item, which must name its session, assignment
// and epoch.
func checkIdentity(uid, namespace, name string, epoch int64) *Checks {
	c := &Checks{}
	if uid == "" {
		c.refuse(fmt.Errorf("session_uid: missing"))
	}
	c.Token("session_uid", uid, MaxToken)
	c.Name("namespace", namespace)
	c.Name("name", name)
	if epoch < 1 {
		c.refuse(fmt.Errorf("epoch: %d is not positive", epoch))
	}
	return c
}

func metaFromWire(namespace, name, hash string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if hash != "" {
		m.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: hash}
	}
	return m
}

// maxTraceparent is the length of a traceparent.
const maxTraceparent = 55

// traced adds a traceparent. A malformed one is omitted: whether a lifecycle is traced
// never decides whether its desktop runs.
func traced(m metav1.ObjectMeta, traceparent string) metav1.ObjectMeta {
	if traceparent != "" && len(traceparent) <= maxTraceparent {
		metav1.SetMetaDataAnnotation(&m, v1alpha1.AnnotationTraceparent, traceparent)
	}
	return m
}

func desktopToWire(d *v1alpha1.Desktop) *fleetv1.Desktop {
	return &fleetv1.Desktop{
		Image:            d.Image,
		ImagePullPolicy:  string(d.ImagePullPolicy),
		ImagePullSecrets: secretsToWire(d.ImagePullSecrets),
		Command:          d.Command,
		Args:             d.Args,
		Port:             d.Port,
		Protocol:         string(d.Protocol),
		Path:             d.Path,
		Resources:        ResourcesToWire(d.Resources),
		Env:              envToWire(d.Env),
		RuntimeClassName: d.RuntimeClassName,
		NodeSelector:     d.NodeSelector,
		Tolerations:      TolerationsToWire(d.Tolerations),
		IngressClassName: d.IngressClassName,
		Home:             homeToWire(d.Home),

		TlsSecretName:     d.TLSSecretName,
		Files:             filesToWire(d.Files),
		ConfigMountPath:   d.ConfigMountPath,
		Secrets:           usesToWire(d.Secrets),
		AccessSecretName:  d.Access.SecretName,
		PasswordEnv:       d.Access.PasswordEnv,
		ActivityPath:      d.Activity.Path,
		StartTimeout:      durationToWire(d.StartTimeout),
		SharedMemory:      quantityToWire(d.SharedMemory),
		PriorityClassName: d.PriorityClassName,
		NetworkPolicy:     &fleetv1.NetworkPolicy{Mode: string(d.NetworkPolicy.Mode), EgressCidrs: d.NetworkPolicy.EgressCIDRs},
	}
}

func desktopFromWire(w *fleetv1.Desktop) (v1alpha1.Desktop, error) {
	if w == nil {
		return v1alpha1.Desktop{}, fmt.Errorf("image: missing")
	}
	resources, err := ResourcesFromWire(w.Resources)
	if err != nil {
		return v1alpha1.Desktop{}, fmt.Errorf("resources%w", err)
	}
	home, err := homeFromWire(w.Home)
	if err != nil {
		return v1alpha1.Desktop{}, fmt.Errorf("home.%w", err)
	}
	start, err := durationFromWire("start_timeout", w.StartTimeout)
	if err != nil {
		return v1alpha1.Desktop{}, err
	}
	shared, err := quantityFromWire("shared_memory", w.SharedMemory)
	if err != nil {
		return v1alpha1.Desktop{}, err
	}
	return v1alpha1.Desktop{
		Image:            w.Image,
		ImagePullPolicy:  corev1.PullPolicy(w.ImagePullPolicy),
		ImagePullSecrets: secretsFromWire(w.ImagePullSecrets),
		Command:          w.Command,
		Args:             w.Args,
		Port:             w.Port,
		Protocol:         v1alpha1.Protocol(w.Protocol),
		Path:             w.Path,
		Resources:        resources,
		Env:              envFromWire(w.Env),
		RuntimeClassName: w.RuntimeClassName,
		NodeSelector:     w.NodeSelector,
		Tolerations:      TolerationsFromWire(w.Tolerations),
		IngressClassName: w.IngressClassName,
		Home:             home,

		TLSSecretName:     w.TlsSecretName,
		Files:             filesFromWire(w.Files),
		ConfigMountPath:   w.ConfigMountPath,
		Secrets:           usesFromWire(w.Secrets),
		Access:            v1alpha1.AssignedAccess{SecretName: w.AccessSecretName, PasswordEnv: w.PasswordEnv},
		Activity:          v1alpha1.Activity{Path: w.ActivityPath},
		StartTimeout:      start,
		SharedMemory:      shared,
		PriorityClassName: w.PriorityClassName,
		NetworkPolicy: v1alpha1.TemplateNetworkPolicy{
			Mode:        v1alpha1.NetworkPolicyMode(w.GetNetworkPolicy().GetMode()),
			EgressCIDRs: w.GetNetworkPolicy().GetEgressCidrs(),
		},
	}, nil
}
