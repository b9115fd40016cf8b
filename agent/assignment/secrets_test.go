package assignment

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const password = "correct-horse-battery"

// withSecret adds a Secret to an assignment, and its content to the payload if
// there is any.
func withSecret(a *v1alpha1.SessionAssignment, name, version, value string) *v1alpha1.SessionAssignment {
	a.Spec.Secrets = append(a.Spec.Secrets, v1alpha1.SecretReference{Name: name, Version: version})
	if value != "" {
		a.Payload = append(a.Payload, v1alpha1.SecretPayload{
			Name: name, Version: version, Type: corev1.SecretTypeBasicAuth,
			Data: map[string][]byte{"username": []byte("desktop"), "password": []byte(value)},
		})
	}
	return a
}

func withAccess(version, value string) *v1alpha1.SessionAssignment {
	return withSecret(assignment("u1", 1, "ada"), "access", version, value)
}

func (b *fixture) secret(name string) *corev1.Secret {
	b.t.Helper()
	s := &corev1.Secret{}
	err := b.live.Get(b.t.Context(), types.NamespacedName{Namespace: "desks", Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *fixture) change(name string, change func(*corev1.Secret)) {
	b.t.Helper()
	s := b.secret(name)
	change(s)
	if err := b.live.Update(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

func TestSecretsExistBeforeAnOrderIsReportedStored(t *testing.T) {
	b := newFixture(t)
	b.refuse = func(kind string) error {
		if kind == "Secret" {
			return apierrors.NewServiceUnavailable("away, and had got " + password)
		}
		return nil
	}
	var logged bytes.Buffer
	b.ctx = log.IntoContext(t.Context(), funcr.New(func(prefix, args string) { logged.WriteString(prefix + args) }, funcr.Options{Verbosity: 9}))
	b.Put(order(withAccess("v1", password)))
	b.expect()
	if b.get("u1") == nil {
		t.Fatal("the assignment is not stored first")
	}
	if !strings.Contains(logged.String(), "desks/access") || strings.Contains(logged.String(), password) {
		t.Errorf("the log names no Secret, or what is in it: %s", logged.String())
	}
	b.refuse = nil
	b.work(t.Context()) // Blocks until the backoff has passed.
	b.expect("STORED e1")
	a, got := b.get("u1"), b.secret("access")
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "access", UID: got.UID, Generation: got.Generation, ResourceVersion: got.ResourceVersion, Labels: render.Selector(a),
			OwnerReferences: []metav1.OwnerReference{render.Owner(a)},
			Annotations: map[string]string{v1alpha1.AnnotationSession: "users/desk", v1alpha1.AnnotationSecretVersion: "v1",
				v1alpha1.AnnotationSecretHash: v1alpha1.SecretDataHash(got.Data)}},
		Type: corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{"username": []byte("desktop"), "password": []byte(password)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if text, _ := json.Marshal(a); bytes.Contains(text, []byte(password)) || bytes.Contains(text, []byte("Payload")) || a.Payload != nil {
		t.Errorf("the assignment has what is in the Secret: %s", text)
	}
}

func TestSecretsOfTheSameOrderAreRepairedAndNotWrittenTwice(t *testing.T) {
	for name, harm := range map[string]func(*fixture){
		"changed":               func(b *fixture) { b.change("access", func(s *corev1.Secret) { s.Data["password"] = []byte("mine") }) },
		"changed with its hash": func(b *fixture) { b.change("access", editWithHash) },
		"without its owner":     func(b *fixture) { b.change("access", func(s *corev1.Secret) { s.OwnerReferences = nil }) },
		"without a label": func(b *fixture) {
			b.change("access", func(s *corev1.Secret) { delete(s.Labels, v1alpha1.LabelAssignment) })
		},
		"of another type": func(b *fixture) { b.change("access", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }) },
		"deleted":         func(b *fixture) { _ = b.live.Delete(b.t.Context(), b.secret("access")) },
		"changed and immutable": func(b *fixture) {
			b.change("access", func(s *corev1.Secret) { s.Data["password"], s.Immutable = []byte("mine"), ptr.To(true) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.Put(order(withAccess("v1", password)))
			b.expect("STORED e1")
			version := b.secret("access").ResourceVersion
			b.Put(order(withAccess("v1", password)))
			b.expect("STORED e1")
			if b.secret("access").ResourceVersion != version {
				t.Error("the same was written again")
			}
			harm(b)
			b.Put(order(withAccess("v1", password)))
			b.expect("STORED e1")
			got := b.secret("access")
			if got == nil || string(got.Data["password"]) != password || got.Type != corev1.SecretTypeBasicAuth ||
				!metav1.IsControlledBy(got, b.get("u1")) || got.Labels[v1alpha1.LabelAssignment] != "desk-u1" ||
				got.Annotations[v1alpha1.AnnotationSecretHash] != v1alpha1.SecretDataHash(got.Data) {
				t.Errorf("not repaired: %+v", got)
			}
		})
	}
}

// editWithHash is a change that updates the hash by which drift is found.
func editWithHash(s *corev1.Secret) {
	s.Data["password"] = []byte("mine")
	s.Annotations[v1alpha1.AnnotationSecretHash] = v1alpha1.SecretDataHash(s.Data)
}

func TestSecretsFollowTheOrder(t *testing.T) {
	b := newFixture(t)
	b.Put(order(withSecret(withAccess("v1", password), "pull", "p1", "token")))
	b.expect("STORED e1")
	a := withSecret(withAccess("v2", "another"), "config", "c1", "")
	b.Put(order(a))
	b.expect("STORED e1")
	if got := b.secret("access"); string(got.Data["password"]) != "another" || got.Annotations[v1alpha1.AnnotationSecretVersion] != "v2" {
		t.Errorf("the new version is not stored: %+v", got)
	}
	if b.secret("pull") != nil {
		t.Error("a Secret that is no longer named is left")
	}
	if b.secret("config") != nil {
		t.Error("a Secret that came without data was made")
	}
	b.Put(order(withSecret(withAccess("v2", ""), "config", "c1", "setting")))
	b.expect("STORED e1")
	if got := b.secret("access"); got == nil || string(got.Data["password"]) != "another" {
		t.Error("a Secret that came without data was touched")
	}
	if b.secret("config") == nil {
		t.Error("the Secret that came with data was not made")
	}
}

func TestSecretOfAnotherOwnerIsNotChanged(t *testing.T) {
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "access"}, Data: map[string][]byte{"k": []byte("theirs")}}
	b := newFixture(t, theirs)
	b.Put(order(withSecret(withAccess("v1", password), "pull", "p1", "token")))
	b.expect("STORED e1")
	if len(b.pending.slots) != 0 {
		t.Error("what is in it is kept in memory")
	}
	if got := b.secret("access"); string(got.Data["k"]) != "theirs" || len(got.OwnerReferences) != 0 {
		t.Errorf("touched: %+v", got)
	}
	if b.secret("pull") == nil {
		t.Error("it keeps another Secret from being stored")
	}
	if err := b.live.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	b.Put(order(withSecret(withAccess("v1", password), "pull", "p1", "token"))) // as the hub does while it is reported missing
	b.expect("STORED e1")
	if got := b.secret("access"); got == nil || string(got.Data["password"]) != password {
		t.Errorf("not stored though its name is free by now: %+v", got)
	}
}

func TestSecretOfAnAssignmentThatIsGoneIsReplaced(t *testing.T) {
	b := newFixture(t)
	former := assignment("u1", 1, "ada")
	former.UID = "former"
	old := secretOf(former, &withAccess("v1", "old").Payload[0])
	if err := b.live.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	b.Put(order(withAccess("v1", password)))
	b.expect("STORED e1")
	if got := b.secret("access"); string(got.Data["password"]) != password || !metav1.IsControlledBy(got, b.get("u1")) {
		t.Errorf("stored: %+v", got)
	}
}

func TestPermanentlyRefusedSecretBlocksNoOtherOrder(t *testing.T) {
	b := newFixture(t)
	b.refuse = func(kind string) error {
		if kind == "Secret" {
			return apierrors.NewForbidden(schema.GroupResource{}, "access", errors.New("quota, for "+password))
		}
		return nil
	}
	var logged bytes.Buffer
	b.ctx = log.IntoContext(t.Context(), funcr.New(func(prefix, args string) { logged.WriteString(prefix + args + "\n") }, funcr.Options{}))
	b.Put(order(withAccess("v1", password)))
	b.Put(order(assignment("u2", 1, "bob")))
	b.expect("STORED e1", "STORED e1")
	b.queue.Add("u1")
	b.run()
	if n := strings.Count(logged.String(), "can't be stored"); n != 1 || !strings.Contains(logged.String(), "Forbidden") {
		t.Errorf("logged %d times: %s", n, logged.String())
	}
	if strings.Contains(logged.String(), password) {
		t.Errorf("the log has what is in the Secret: %s", logged.String())
	}
}
