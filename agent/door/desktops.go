package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Desktop is a session that the member has.
type Desktop struct {
	// Session of the desktop, and the epoch of its placement.
	Session v1alpha1.SessionReference
	Epoch   int64
	// Address of the desktop's port, empty while its Pod is not ready. TLS is set if it serves HTTPS.
	Address string
	TLS     bool
	// Path of the desktop's page.
	Path string
	// Secret with the desktop's own credentials, and the version of its content; without a name it has none.
	Secret  types.NamespacedName
	Version string
}

// Credentials are those of a desktop's Basic authentication.
type Credentials struct{ Username, Password string }

// Desktops finds desktops.
type Desktops interface {
	// ByLabel returns the desktop of a host's first label.
	ByLabel(ctx context.Context, label string) (Desktop, bool)
	// Credentials returns the desktop's own credentials.
	Credentials(ctx context.Context, d Desktop) (Credentials, error)
}

// labelIndex is the index of assignments by the first label of their host.
const labelIndex = "spec.host"

// podIndex is the index of Pods by the UID of their assignment.
const podIndex = "metadata.controller"

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",roleName=vdi-door-sessions,resources=secrets,verbs=get

// members finds the desktops of a member in its API server (Desktops).
type members struct {
	// cached has assignments and Pods, and live reads Secrets from the API server.
	cached, live client.Reader

	mu sync.Mutex
	// known are the credentials that were read, by their Secret.
	known map[types.NamespacedName]known
}

type known struct {
	version string
	Credentials
}

// indexed indexes assignments and Pods, so that ByLabel finds them.
func indexed(ctx context.Context, c cache.Cache) error {
	return errors.Join(c.IndexField(ctx, &v1alpha1.SessionAssignment{}, labelIndex, labelOf), c.IndexField(ctx, &corev1.Pod{}, podIndex, ownerOf))
}

func labelOf(o client.Object) []string {
	label, _, _ := strings.Cut(o.(*v1alpha1.SessionAssignment).Spec.Host, ".")
	return []string{label}
}

func ownerOf(pod client.Object) []string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// ByLabel returns the desktop of a host's first label.
func (m *members) ByLabel(ctx context.Context, label string) (Desktop, bool) {
	var found v1alpha1.SessionAssignmentList
	err := m.cached.List(ctx, &found, client.MatchingFields{labelIndex: label}, client.UnsafeDisableDeepCopy)
	if err != nil || len(found.Items) != 1 || found.Items[0].DeletionTimestamp != nil {
		return Desktop{}, false
	}
	d := desktopOf(&found.Items[0])
	if ip := m.podIP(ctx, &found.Items[0]); ip != "" {
		d.Address = net.JoinHostPort(ip, strconv.Itoa(int(found.Items[0].Spec.Desktop.Port)))
	}
	return d, true
}

// podIP returns the address of the assignment's Pod, "" unless it is ready. Nothing but the Pod itself is trusted for that:
// once a Pod has ended, its address may be that of another user's.
func (m *members) podIP(ctx context.Context, a *v1alpha1.SessionAssignment) string {
	var pods corev1.PodList
	if err := m.cached.List(ctx, &pods, client.InNamespace(a.Namespace), client.MatchingFields{podIndex: string(a.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return ""
	}
	for i := range pods.Items {
		if isReady(&pods.Items[i]) {
			return pods.Items[i].Status.PodIP
		}
	}
	return ""
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// desktopOf returns the desktop of an assignment, without its address.
func desktopOf(a *v1alpha1.SessionAssignment) Desktop {
	d := Desktop{
		Session: a.Spec.Session, Epoch: a.Spec.Epoch,
		TLS: a.Spec.Desktop.Protocol == v1alpha1.ProtocolHTTPS, Path: a.Spec.Desktop.Path,
	}
	if name := a.Spec.Desktop.Access.SecretName; name != "" {
		d.Secret = types.NamespacedName{Namespace: a.Namespace, Name: name}
		for _, secret := range a.Spec.Secrets {
			if secret.Name == name {
				d.Version = secret.Version
			}
		}
	}
	return d
}

// errNotStored is the error of a desktop whose credentials the agent has not stored yet.
var errNotStored = errors.New("the desktop's credentials are not stored yet")

// Credentials returns the desktop's own credentials, which are read once for each version.
func (m *members) Credentials(ctx context.Context, d Desktop) (Credentials, error) {
	m.mu.Lock()
	have, ok := m.known[d.Secret]
	m.mu.Unlock()
	if ok && have.version == d.Version {
		return have.Credentials, nil
	}
	secret := &corev1.Secret{}
	err := m.live.Get(ctx, d.Secret, secret)
	switch {
	case apierrors.IsForbidden(err):
		return Credentials{}, fmt.Errorf("the door may not read the desktop's credentials: run kubectl vdi admit %s again: %w", d.Secret.Namespace, err)
	case apierrors.IsNotFound(err), err == nil && secret.Annotations[v1alpha1.AnnotationSecretVersion] != d.Version:
		return Credentials{}, errNotStored
	case err != nil:
		return Credentials{}, fmt.Errorf("reading the desktop's credentials: %w", err)
	}
	have = known{version: d.Version, Credentials: Credentials{
		Username: string(secret.Data[corev1.BasicAuthUsernameKey]), Password: string(secret.Data[corev1.BasicAuthPasswordKey]),
	}}
	m.mu.Lock()
	m.known[d.Secret] = have
	m.mu.Unlock()
	return have.Credentials, nil
}

// forget removes the credentials of an assignment that is gone.
func (m *members) forget(a *v1alpha1.SessionAssignment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, types.NamespacedName{Namespace: a.Namespace, Name: a.Spec.Desktop.Access.SecretName})
}
