package assignment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// realFixture is a Store with a real API server and only the permissions of this package's
// markers.
type realFixture struct {
	*WithT
	t       *testing.T
	plane   *harness.ControlPlane
	admin   client.Client
	store   *Store
	results *results
}

func startReal(t *testing.T) *realFixture {
	t.Helper()
	b := &realFixture{WithT: NewWithT(t), t: t, results: &results{}}
	b.SetDefaultEventuallyTimeout(20 * time.Second)
	root, err := harness.Root()
	b.Expect(err).NotTo(HaveOccurred())
	b.plane, err = harness.StartControlPlane(t.Context(), harness.ControlPlaneOptions{
		APIOnly: true, CRDDirs: []string{filepath.Join(root, "deploy/charts/vdi-agent/files/crds")},
		Namespaces: map[string]map[string]string{"desks": {v1alpha1.LabelAdmitSessions: "true"}},
	})
	b.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { b.Expect(b.plane.Stop()).To(Succeed()) })
	scheme := runtime.NewScheme()
	b.Expect(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))).To(Succeed())
	b.admin, err = client.New(b.plane.Config, client.Options{Scheme: scheme})
	b.Expect(err).NotTo(HaveOccurred())
	b.grant()
	b.run(scheme)
	return b
}

func (b *realFixture) grant() {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	named := metav1.ObjectMeta{Name: "vdi-agent"}
	b.Expect(b.admin.Create(b.t.Context(), &rbacv1.ClusterRole{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
		rule(v1alpha1.GroupName, "sessionassignments", "get", "list", "watch", "create", "update", "patch", "delete"),
		// Owner references that block a deletion require this; agent/session has it.
		rule(v1alpha1.GroupName, "sessionassignments/finalizers", "update"),
		rule("", "namespaces", "get", "list", "watch"),
		rule("", "secrets", "get", "list", "watch", "create", "update", "delete"),
		rule("", "pods", "list", "delete"),
	}})).To(Succeed())
	b.Expect(b.admin.Create(b.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: named,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vdi-agent"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "vdi-agent"}},
	})).To(Succeed())
}

// run the store as the agent does: its cache holds only the agent's Secrets.
func (b *realFixture) run(scheme *runtime.Scheme) {
	config, err := b.plane.ConfigFor("vdi-agent")
	b.Expect(err).NotTo(HaveOccurred())
	managed := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: managed}},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}, // of other tests in this process
	})
	b.Expect(err).NotTo(HaveOccurred())
	b.store = New(Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Reporter: b.results, Capacity: lackingCapacity(""),
		Restrictions: &restriction.Settings{OpenNetwork: true, PrivateEgress: true}})
	b.Expect(b.store.SetupWithManager(mgr)).To(Succeed())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	b.t.Cleanup(func() { stop(); b.Expect(<-ended).To(Succeed()) })
}

// put an order and wait for that answer.
func (b *realFixture) put(a *v1alpha1.SessionAssignment) {
	b.t.Helper()
	a.Spec.Template, a.Spec.TemplateRevision, a.Spec.RunState, a.Spec.Host = "desk", "r1", v1alpha1.ModeRunning, "h.example.com"
	b.store.Put(order(a))
	b.expectResult("STORED e1")
}

func (b *realFixture) expectResult(want string) {
	b.t.Helper()
	b.Eventually(func() bool { return slices.Contains(b.results.take(), want) }).Should(BeTrue(), want)
}

func (b *realFixture) read(name string, o client.Object) client.Object {
	b.t.Helper()
	b.Expect(b.admin.Get(b.t.Context(), types.NamespacedName{Namespace: "desks", Name: name}, o)).To(Succeed())
	return o
}

func (b *realFixture) password() func() string {
	return func() string { return string(b.read("access", &corev1.Secret{}).(*corev1.Secret).Data["password"]) }
}

func TestStoreOverARealAPIServer(t *testing.T) {
	b := startReal(t)
	ctx := t.Context()
	desk := func(version, value string) *v1alpha1.SessionAssignment { return withAccess(version, value) }

	// Another object has the name, which the cache does not show.
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "access"}, Data: map[string][]byte{"password": []byte("theirs")}}
	b.Expect(b.admin.Create(ctx, theirs)).To(Succeed())
	b.put(desk("v1", password))
	b.Expect(b.password()()).To(Equal("theirs"))
	b.Expect(b.admin.Delete(ctx, theirs)).To(Succeed())
	b.put(desk("v1", password))
	b.Expect(b.password()()).To(Equal(password))

	// What the API server has of the assignment does not have it.
	raw, err := b.plane.Dynamic.Resource(v1alpha1.GroupVersion.WithResource("sessionassignments")).
		Namespace("desks").Get(ctx, "desk-u1", metav1.GetOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	text, err := json.Marshal(raw)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(bytes.Contains(text, []byte(password)) || bytes.Contains(bytes.ToLower(text), []byte("payload"))).To(BeFalse(), string(text))
	b.Expect(report(b.read("desk-u1", &v1alpha1.SessionAssignment{}).(*v1alpha1.SessionAssignment)).GetSpecHash()).
		NotTo(Equal(editedHash), "as it was stored")

	// A new version, another type, and one that was made immutable.
	b.put(desk("v2", "second"))
	b.Expect(b.password()()).To(Equal("second"))
	opaque := desk("v3", "third")
	opaque.Payload[0].Type = ""
	b.put(opaque)
	b.Expect(b.password()()).To(Equal("third"))
	b.Expect(b.read("access", &corev1.Secret{}).(*corev1.Secret).Type).To(Equal(corev1.SecretTypeOpaque))
	locked := b.read("access", &corev1.Secret{}).(*corev1.Secret)
	locked.Immutable = ptr.To(true)
	b.Expect(b.admin.Update(ctx, locked)).To(Succeed())
	b.put(desk("v4", "fourth"))
	b.Expect(b.password()()).To(Equal("fourth"))

	// A Secret that the API server never accepts blocks no other.
	invalid := withSecret(desk("v4", "fourth"), "pull", "p1", password)
	invalid.Payload[1].Type = corev1.SecretTypeDockerConfigJson
	b.put(invalid)
	b.Expect(apierrors.IsNotFound(b.admin.Get(ctx, types.NamespacedName{Namespace: "desks", Name: "pull"}, &corev1.Secret{}))).To(BeTrue())

	// A spec with drift is reported with another hash, and repaired.
	stored := func() *v1alpha1.SessionAssignment {
		return b.read("desk-u1", &v1alpha1.SessionAssignment{}).(*v1alpha1.SessionAssignment)
	}
	b.Expect(report(stored()).GetSpecHash()).NotTo(Equal(editedHash), "after revisions")
	b.Expect(b.admin.Patch(ctx, stored(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"host":"mine.example.com"}}`)))).To(Succeed())
	b.Expect(report(stored()).GetSpecHash()).To(Equal(editedHash))
	b.put(desk("v4", "fourth"))
	b.Expect(stored().Spec.Host).To(Equal("h.example.com"))
	b.Expect(report(stored()).GetSpecHash()).NotTo(Equal(editedHash))
	b.Expect(b.admin.Patch(ctx, stored(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))).To(Succeed())
	b.Expect(report(stored()).GetSpecHash()).NotTo(Equal(editedHash), "a label is no spec")
}

func TestForcedWithdrawalOverARealAPIServer(t *testing.T) {
	b := startReal(t)
	ctx := t.Context()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "default"}}
	b.Expect(b.admin.Create(ctx, account)).To(Or(Succeed(), MatchError(apierrors.IsAlreadyExists, "there")))
	pod := podOf("u1")
	// Bound to a node without a kubelet, so that its end is not confirmed.
	pod.Spec.NodeName = "burnt"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	b.Expect(b.admin.Create(ctx, pod)).To(Succeed())
	b.Expect(b.admin.Delete(ctx, pod)).To(Succeed())
	b.Expect(b.read(pod.Name, &corev1.Pod{}).GetDeletionTimestamp()).NotTo(BeNil(), "it waits for its kubelet")

	b.store.Put(withdrawOrder("u1", 1))
	b.expectResult("STORED e1")
	b.store.Put(forceOrder("u1", 1))
	b.expectResult("STOPPED e1")
	b.Expect(apierrors.IsNotFound(b.admin.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}))).To(BeTrue())

	// An existing assignment is annotated for agent/session.
	b.put(assignment("u2", 1, "bob"))
	b.store.Put(forceOrder("u2", 1))
	b.expectResult("STORED e1")
	a := b.read("desk-u2", &v1alpha1.SessionAssignment{})
	b.Expect(a.GetDeletionTimestamp()).NotTo(BeNil())
	b.Expect(a.GetAnnotations()).To(HaveKeyWithValue(v1alpha1.AnnotationForceCleanup, forcedByHub))
}
