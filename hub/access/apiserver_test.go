package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const hubUser = "system:serviceaccount:vdi-system:vdi-hub"

// plane is one API server for all tests that need one, each in a namespace of its
// own, with the policies that the hub is installed with.
var plane *harness.ControlPlane

var startPlane = sync.OnceValue(func() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	plane, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "hub", APIOnly: true, CRDDirs: []string{"../../deploy/charts/vdi-hub/files/crds"}, AdmissionDir: "../../deploy/charts/vdi-hub/files/admission",
		Namespaces: map[string]map[string]string{"vdi-system": nil},
	})
	if err != nil {
		return err
	}
	return errors.Join(
		plane.ApplyFile(ctx, "../../deploy/charts/vdi-hub/files/rbac.yaml"),
		plane.Apply(ctx, []byte(bound("ClusterRoleBinding", "", "vdi-hub"))))
})

func TestMain(m *testing.M) {
	code := m.Run()
	if plane != nil {
		if err := plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// bound binds a ClusterRole to the hub as it is installed.
func bound(kind, namespace, role string) string {
	return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: %s
metadata: {name: %s, namespace: %q}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}
subjects:
- {kind: ServiceAccount, namespace: vdi-system, name: vdi-hub}
`, kind, role, namespace, role)
}

// server is the API server in one test's namespace.
type server struct {
	*WithT
	*testing.T
	client.Client
	namespace string
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{WithT: NewWithT(t), T: t, namespace: strings.ToLower(t.Name())}
	s.SetDefaultEventuallyTimeout(30 * time.Second)
	s.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	s.Expect(startPlane()).To(Succeed())
	s.Client = s.clientOf("admin", "system:masters")
	s.Expect(plane.EnsureNamespace(t.Context(), s.namespace, nil)).To(Succeed())
	for _, role := range []string{"vdi-hub-sessions", "vdi-hub-user-roles"} {
		s.Expect(plane.Apply(t.Context(), []byte(bound("RoleBinding", s.namespace, role)))).To(Succeed())
	}
	hub := s.clientOf(hubUser, "system:serviceaccounts", "system:serviceaccounts:vdi-system")
	s.Eventually(func() error {
		return hub.List(t.Context(), &rbacv1.RoleList{}, client.InNamespace(s.namespace))
	}).Should(Succeed(), "the API server learns of roles a moment later")
	return s
}

func scheme() *runtime.Scheme {
	all := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(all)
	_ = v1alpha1.AddToScheme(all)
	return all
}

func (s *server) clientOf(user string, groups ...string) client.Client {
	s.Helper()
	cfg, err := plane.ConfigFor(user, groups...)
	s.Expect(err).NotTo(HaveOccurred())
	cfg.QPS, cfg.Burst = 500, 1000
	c, err := client.New(cfg, client.Options{Scheme: scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	return c
}

// start runs the controller as the hub, with the hub's rights. It returns its
// events. What is unused is removed after the interval.
func (s *server) start(interval time.Duration) chan string {
	s.Helper()
	return s.startRetaining(interval, interval)
}

func (s *server) startRetaining(interval, retention time.Duration) chan string {
	s.Helper()
	cfg, err := plane.ConfigFor(hubUser, "system:serviceaccounts", "system:serviceaccounts:vdi-system")
	s.Expect(err).NotTo(HaveOccurred())
	cfg.QPS, cfg.Burst = 500, 1000
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&rbacv1.Role{}: Cached([]string{s.namespace}), &rbacv1.RoleBinding{}: Cached([]string{s.namespace}),
		}},
	})
	s.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	sessions, err := index.Setup(ctx, mgr.GetCache())
	s.Expect(err).NotTo(HaveOccurred())
	recorder := events.NewFakeRecorder(100)
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Sessions: sessions, Recorder: recorder, Clock: clock.RealClock{}, Interval: interval, Retention: retention}
	s.Expect(r.SetupWithManager(mgr)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
	s.Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	return recorder.Events
}

// run makes a session of a user that has its access Secret, as the hub does.
func (s *server) run(user, name string) *v1alpha1.VDISession {
	s.Helper()
	ctx := s.Context()
	made := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	made.Spec.User, made.Spec.Template = user, "browser"
	s.Expect(s.Create(ctx, made)).To(Succeed())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: v1alpha1.AssignmentName(name, made.UID)}}
	secret.Type, secret.StringData = corev1.SecretTypeBasicAuth, map[string]string{"username": "desktop", "password": "of-" + name}
	s.Expect(s.Create(ctx, secret)).To(Succeed())
	before := made.DeepCopy()
	made.Status.AccessSecretName = secret.Name
	s.Expect(s.Status().Patch(ctx, made, client.MergeFrom(before))).To(Succeed())
	return made
}

// password is what a user reads of a session's.
func (s *server) password(as client.Client, of *v1alpha1.VDISession) func() (string, error) {
	return func() (string, error) {
		secret := &corev1.Secret{}
		err := as.Get(s.Context(), client.ObjectKey{Namespace: of.Namespace, Name: v1alpha1.AssignmentName(of.Name, of.UID)}, secret)
		return string(secret.Data["password"]), err
	}
}

func (s *server) roles() []string {
	s.Helper()
	list := &rbacv1.RoleList{}
	s.Expect(s.List(s.Context(), list, client.InNamespace(s.namespace))).To(Succeed())
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func TestUsersReadTheirOwnPasswordsAndNoOthers(t *testing.T) {
	s := serve(t)
	alice, bob, eve := s.clientOf("alice@example.com"), s.clientOf("bob"), s.clientOf("eve")
	first, second, bobs := s.run("alice@example.com", "a1"), s.run("alice@example.com", "a2"), s.run("bob", "b1")

	// The exploit: a user who reads a password by a right to `get secrets` reads all.
	s.Expect(plane.Apply(t.Context(), fmt.Appendf(nil, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: get-secrets, namespace: %[1]s}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: get-secrets, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: get-secrets}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}
`, s.namespace))).To(Succeed())
	s.Eventually(s.password(eve, bobs)).Should(Equal("of-b1"))

	// Without it, no user reads any; with the hub's Roles, users read their own.
	_, err := s.password(alice, first)()
	s.Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	s.start(50 * time.Millisecond)
	s.Eventually(s.password(alice, first)).Should(Equal("of-a1"))
	s.Eventually(s.password(alice, second)).Should(Equal("of-a2"))
	s.Eventually(s.password(bob, bobs)).Should(Equal("of-b1"))
	for user, read := range map[string]func() (string, error){
		"alice reads bob's": s.password(alice, bobs), "bob reads alice's": s.password(bob, first),
	} {
		_, err := read()
		s.Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"), user)
	}
	s.Expect(alice.List(t.Context(), &corev1.SecretList{}, client.InNamespace(s.namespace))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: first.Status.AccessSecretName}}
	s.Expect(alice.Delete(t.Context(), mine)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))

	s.Expect(s.Delete(t.Context(), first)).To(Succeed())
	s.Expect(s.Delete(t.Context(), second)).To(Succeed())
	s.Eventually(s.roles).Should(ConsistOf("get-secrets", Name("bob")))
	s.Eventually(func() error { _, err := s.password(alice, first)(); return err }).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
}

func TestAUserWhoComesBackCostsOneUpdate(t *testing.T) {
	s := serve(t)
	s.startRetaining(50*time.Millisecond, time.Hour)
	mark, err := harness.AuditMark(plane.AuditLog())
	s.Expect(err).NotTo(HaveOccurred())
	erin := s.clientOf("erin")
	var last *v1alpha1.VDISession
	for _, name := range []string{"monday", "tuesday", "wednesday"} {
		last = s.run("erin", name)
		s.Eventually(s.password(erin, last)).Should(Equal("of-" + name))
		s.Expect(s.Delete(t.Context(), last)).To(Succeed())
	}
	counts, err := harness.CountWrites(plane.AuditLog(), harness.CountOptions{Offset: mark, Users: []string{hubUser}})
	s.Expect(err).NotTo(HaveOccurred())
	writes := map[string]int{}
	for _, c := range counts {
		writes[c.Verb+" "+c.Resource] += c.Count
	}
	s.Expect(writes).To(Equal(map[string]int{"create roles": 1, "create rolebindings": 1, "update roles": 2}))
	role := &rbacv1.Role{}
	s.Expect(s.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: Name("erin")}, role)).To(Succeed())
	s.Expect(role.Rules[0].ResourceNames).To(ConsistOf(last.Status.AccessSecretName), "an update drops the names of ended sessions")
}

func TestABurstCostsFewWrites(t *testing.T) {
	s := serve(t)
	s.start(DefaultInterval)
	mark, err := harness.AuditMark(plane.AuditLog())
	s.Expect(err).NotTo(HaveOccurred())
	const sessions, users = 50, 5
	var all []*v1alpha1.VDISession
	for i := range sessions {
		all = append(all, s.run(fmt.Sprintf("user-%d", i%users), fmt.Sprintf("s%d", i)))
	}
	writes := func() (roles, bindings, failed int) {
		counts, err := harness.CountWrites(plane.AuditLog(), harness.CountOptions{Offset: mark, Users: []string{hubUser}})
		s.Expect(err).NotTo(HaveOccurred())
		for _, c := range counts {
			switch c.Resource {
			case "roles":
				roles += c.Count
			case "rolebindings":
				bindings += c.Count
			}
			failed += c.Failed
		}
		return roles, bindings, failed
	}
	for i, of := range all {
		s.Eventually(s.password(s.clientOf(of.Spec.User), of)).Should(Equal(fmt.Sprintf("of-s%d", i)))
	}
	roles, bindings, failed := writes()
	t.Logf("%d sessions of %d users: %d writes of Roles, %d of RoleBindings", sessions, users, roles, bindings)
	s.Expect(bindings).To(Equal(users))
	s.Expect(roles).To(BeNumerically("<=", sessions))
	s.Expect(failed).To(BeZero())

	for _, of := range all {
		s.Expect(s.Delete(t.Context(), of)).To(Succeed())
	}
	s.Eventually(s.roles).Should(BeEmpty())
	roles, bindings, failed = writes()
	t.Logf("and their end: %d writes of Roles, %d of RoleBindings in all", roles, bindings)
	s.Expect(bindings).To(Equal(2 * users))
	s.Expect(roles).To(BeNumerically("<=", sessions))
	s.Expect(failed).To(BeZero())
}

// plant stores what a hub that is gone had for a user.
func (s *server) plant(user string, change func(client.Object)) {
	s.Helper()
	role, binding := Desired([]*v1alpha1.VDISession{session(user, "old", func(o *v1alpha1.VDISession) { o.Namespace = s.namespace })})
	for _, o := range []client.Object{role, binding} {
		change(o)
		s.Expect(s.Create(s.Context(), o)).To(Succeed())
	}
}

func TestUnusedRolesAreRemoved(t *testing.T) {
	s := serve(t)
	s.plant("gone", func(client.Object) {})
	s.plant("theirs", func(o client.Object) { o.SetLabels(nil) })
	s.start(50 * time.Millisecond)
	s.Eventually(s.roles).Should(ConsistOf(Name("theirs")))
	bindings := &rbacv1.RoleBindingList{}
	s.Eventually(func() []rbacv1.RoleBinding {
		s.Expect(s.List(t.Context(), bindings, client.InNamespace(s.namespace), ours)).To(Succeed())
		return bindings.Items
	}).Should(BeEmpty())
	s.Consistently(s.roles).WithTimeout(200*time.Millisecond).Should(ConsistOf(Name("theirs")), "without its label it is not the hub's")
}

func TestANameConflictIsReportedAndNothingIsChanged(t *testing.T) {
	s := serve(t)
	theirs := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: Name("carol")}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}}
	s.Expect(s.Create(t.Context(), theirs)).To(Succeed())
	events := s.start(50 * time.Millisecond)
	s.run("carol", "c1")
	s.Eventually(events).Should(Receive(And(ContainSubstring(v1alpha1.EventRoleConflict), ContainSubstring(theirs.Name), ContainSubstring("delete or rename it"))))
	after := theirs.DeepCopy()
	s.Expect(s.Get(t.Context(), client.ObjectKeyFromObject(theirs), after)).To(Succeed())
	s.Expect(after.ResourceVersion).To(Equal(theirs.ResourceVersion))
	err := s.Get(t.Context(), client.ObjectKeyFromObject(theirs), &rbacv1.RoleBinding{})
	s.Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"), "no user is bound to a Role that the hub did not write")
}

func TestDriftIsRepaired(t *testing.T) {
	s := serve(t)
	s.start(50 * time.Millisecond)
	of := s.run("dora", "d1")
	eve := s.clientOf("eve")
	s.Eventually(s.password(s.clientOf("dora"), of)).Should(Equal("of-d1"))

	key := client.ObjectKey{Namespace: s.namespace, Name: Name("dora")}
	binding := &rbacv1.RoleBinding{}
	s.Expect(s.Get(t.Context(), key, binding)).To(Succeed())
	binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "eve"})
	s.Expect(s.Update(t.Context(), binding)).To(Succeed())
	s.Eventually(func() []rbacv1.Subject {
		s.Expect(s.Get(t.Context(), key, binding)).To(Succeed())
		return binding.Subjects
	}).Should(HaveLen(1))
	s.Eventually(func() error { _, err := s.password(eve, of)(); return err }).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))

	role := &rbacv1.Role{}
	s.Expect(s.Get(t.Context(), key, role)).To(Succeed())
	role.Rules[0].ResourceNames = nil
	s.Expect(s.Update(t.Context(), role)).To(Succeed())
	s.Eventually(func() []string {
		s.Expect(s.Get(t.Context(), key, role)).To(Succeed())
		return role.Rules[0].ResourceNames
	}).Should(ConsistOf(of.Status.AccessSecretName))

	// A binding to another Role can't be changed: it is replaced.
	s.Expect(s.Delete(t.Context(), binding)).To(Succeed())
	_, other := Desired([]*v1alpha1.VDISession{session("dora", "d1", func(o *v1alpha1.VDISession) { o.Namespace = s.namespace })})
	other.RoleRef.Name = "another"
	s.Eventually(func() error {
		_ = s.Delete(t.Context(), binding)
		return s.Create(t.Context(), other.DeepCopy())
	}).Should(Succeed())
	s.Eventually(func() string {
		if err := s.Get(t.Context(), key, binding); err != nil {
			return err.Error()
		}
		return binding.RoleRef.Name
	}).Should(Equal(key.Name))
}
