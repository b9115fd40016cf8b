package door

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// assigned returns an assignment.
func assigned() *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "alice-browser-0123456789", UID: "assignment"}}
	a.Spec = v1alpha1.SessionAssignmentSpec{
		Session: v1alpha1.SessionReference{Namespace: "desktops", Name: "alice-browser", UID: "uid"}, Epoch: 2,
		Host:    "alice-browser-0123456789.eu-west.desktops.example.com",
		Secrets: []v1alpha1.SecretReference{{Name: "other", Version: "v9"}, {Name: "alice-access", Version: "v1"}},
		Desktop: v1alpha1.Desktop{Port: 6901, Protocol: v1alpha1.ProtocolHTTPS, Path: "/vnc.html", Access: v1alpha1.AssignedAccess{SecretName: "alice-access"}},
	}
	return a
}

// podOf returns a Pod of an assignment that is ready.
func podOf(a *v1alpha1.SessionAssignment, name, ip string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name}}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(a, v1alpha1.GroupVersion.WithKind("SessionAssignment"))}
	pod.Status.PodIP, pod.Status.Conditions = ip, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// credentials returns the Secret of a version.
func credentials(version, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "alice-access", Annotations: map[string]string{v1alpha1.AnnotationSecretVersion: version}},
		Data:       map[string][]byte{"username": []byte("kasm_user"), "password": []byte(password)},
	}
}

// inMember returns the desktops of a member with objects, and counts the reads of Secrets.
func inMember(t *testing.T, reads *int, objects ...client.Object) (*members, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.SessionAssignment{}, labelIndex, labelOf).WithIndex(&corev1.Pod{}, podIndex, ownerOf).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				*reads++
				return c.Get(ctx, key, o, opts...)
			},
		}).Build()
	return &members{cached: store, live: store, known: map[types.NamespacedName]known{}}, store
}

func TestDesktopsAreFoundByTheLabelOfTheirHost(t *testing.T) {
	var reads int
	m, _ := inMember(t, &reads, assigned(), podOf(assigned(), "alice", "fd00::7"))
	got, found := m.ByLabel(t.Context(), "alice-browser-0123456789")
	want := Desktop{
		Session: assigned().Spec.Session, Epoch: 2, Address: "[fd00::7]:6901", TLS: true, Path: "/vnc.html",
		Secret: types.NamespacedName{Namespace: "desks", Name: "alice-access"}, Version: "v1",
	}
	if !found || got != want {
		t.Errorf("%+v", got)
	}
	if got, found := m.ByLabel(t.Context(), "alice-browser"); found {
		t.Errorf("another label is that of %+v", got)
	}
}

// The address of a Pod that has ended may be another user's by now.
func TestNoAddressButThatOfAPodThatIsReady(t *testing.T) {
	other := assigned()
	other.Name, other.UID, other.Spec.Host = "bob", "bob", "bob.eu-west.desktops.example.com"
	notReady, ending := podOf(assigned(), "not-ready", "fd00::1"), podOf(assigned(), "ending", "fd00::2")
	notReady.Status.Conditions[0].Status = corev1.ConditionFalse
	now := metav1.Now()
	ending.DeletionTimestamp, ending.Finalizers = &now, []string{"test/keep"}
	var reads int
	m, store := inMember(t, &reads, assigned(), other, notReady, ending, podOf(other, "bob", "fd00::3"))
	if got, found := m.ByLabel(t.Context(), "alice-browser-0123456789"); !found || got.Address != "" {
		t.Errorf("found: %v, %+v", found, got)
	}
	if err := store.Create(t.Context(), podOf(assigned(), "next", "fd00::4")); err != nil {
		t.Fatal(err)
	}
	if got, _ := m.ByLabel(t.Context(), "alice-browser-0123456789"); got.Address != "[fd00::4]:6901" {
		t.Errorf("with a Pod that is ready: %+v", got)
	}
}

// A Pod in the cache is no more than the door needs of it.
func TestTrimmedPod(t *testing.T) {
	pod := podOf(assigned(), "alice", "fd00::7")
	pod.Spec.Containers = []corev1.Container{{Name: "desktop", Env: []corev1.EnvVar{{Name: "TOKEN", Value: "secret"}}}}
	pod.Annotations = map[string]string{"a": "b"}
	trimmed, err := trimmedPod(pod)
	got, ok := trimmed.(*corev1.Pod)
	if err != nil || !ok || len(got.Spec.Containers) != 0 || got.Annotations != nil {
		t.Errorf("%+v, %v", trimmed, err)
	}
	if !isReady(got) || got.Status.PodIP != "fd00::7" || len(ownerOf(got)) != 1 || ownerOf(got)[0] != "assignment" {
		t.Errorf("%+v", got)
	}
}

// A desktop gets the credentials of its current run, not those of the run before it.
func TestCredentialsAreOfTheVersionOfTheAssignment(t *testing.T) {
	var reads int
	m, store := inMember(t, &reads, credentials("v1", "first"))
	d := desktopOf(assigned())
	for range 3 {
		if got, err := m.Credentials(t.Context(), d); err != nil || got != (Credentials{"kasm_user", "first"}) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if reads != 1 {
		t.Errorf("the Secret is read %d times for three requests", reads)
	}
	// The assignment has been changed, its Secret not yet.
	d.Version = "v2"
	if got, err := m.Credentials(t.Context(), d); !errors.Is(err, errNotStored) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := store.Update(t.Context(), credentials("v2", "second")); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Credentials(t.Context(), d); err != nil || got.Password != "second" {
		t.Errorf("%+v, %v", got, err)
	}
	m.forget(assigned())
	if len(m.known) != 0 {
		t.Errorf("after the session's end it remembers %v", m.known)
	}
}

// The error names the remedy.
func TestADoorThatMayNotReadSecrets(t *testing.T) {
	denied := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "alice-access", errors.New("no role"))
		},
	})
	m := &members{live: denied, known: map[types.NamespacedName]known{}}
	if _, err := m.Credentials(t.Context(), desktopOf(assigned())); err == nil || !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}
