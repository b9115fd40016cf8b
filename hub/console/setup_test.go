package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/check"
	"github.com/vdi-fleet/vdi-fleet/hub/console/impersonation"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/tickets"
)

// oneKey is the key of a console.
type oneKey struct{}

func (oneKey) Current() (string, []byte, error) { return "a", []byte(strings.Repeat("a", 32)), nil }
func (oneKey) Key(id string) ([]byte, bool)     { return []byte(strings.Repeat("a", 32)), id == "a" }

// write is a request that changed something, and whom it acted as.
type write struct{ user, verb, object, body string }

// site is a console with an API server that admits what a table says.
type site struct {
	t       *testing.T
	console *console
	handler http.Handler
	writes  []write
	// denies lists what reviews deny: "USER VERB NAMESPACE".
	denies map[string]bool
	// unanswered makes every review fail.
	unanswered bool
	// refusal is the error of the next write.
	refusal error
	// store is the API server.
	store client.WithWatch
}

// update changes an object as somebody else.
func (s *site) update(o client.Object) {
	s.t.Helper()
	if err := s.store.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

// open starts a console with objects.
func open(t *testing.T, objects ...client.Object) *site {
	t.Helper()
	s := &site{t: t, denies: map[string]bool{}}
	hash, _ := bcrypt.GenerateFromPassword([]byte("wonderland"), bcrypt.MinCost)
	file := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(file, []byte("users:\n- {name: alice, groups: [staff], passwordHash: '"+string(hash)+"'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{
		URL: "https://vdi.example.com", SessionNamespaces: []string{"desktops", "labs"}, LoginLifetime: time.Hour,
		UsersOptions: UsersOptions{UsersFile: file, AllowUsersFile: true},
	}
	c, err := newConsole(o, oneKey{})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	_, _ = clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.VDISession{}, userIndex, func(o client.Object) []string { return []string{o.(*v1alpha1.VDISession).Spec.User} }).
		WithInterceptorFuncs(interceptor.Funcs{Create: s.create, Patch: s.patch, Delete: s.delete}).Build()
	s.store, c.cache, c.live, c.users = store, store, store, store
	c.authorizer = impersonation.NewAuthorizer(store)
	c.impersonates = &check.Check{Of: "impersonation", Run: func(context.Context) error { return nil }, Clock: clocktesting.NewFakeClock(time.Now())}
	c.logins.redeemer = &tickets.Redeemer{Client: store, Live: store, Guarded: func() error { return nil }, Clock: clocktesting.NewFakeClock(time.Now())}
	s.console, s.handler = c, c.routes()
	return s
}

func (s *site) record(ctx context.Context, verb string, o client.Object, body string) error {
	user, _ := impersonation.From(ctx)
	s.writes = append(s.writes, write{user.Name, verb, o.GetNamespace() + "/" + o.GetName(), body})
	return s.refusal
}

func (s *site) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if review, ok := o.(*authorizationv1.SubjectAccessReview); ok {
		a := review.Spec.ResourceAttributes
		if s.unanswered {
			return errors.New("connection refused")
		}
		review.Status.Allowed = !s.denies[review.Spec.User+" "+a.Verb+" "+a.Namespace]
		return nil
	}
	if err := s.record(ctx, "create", o, ""); err != nil {
		return err
	}
	return c.Create(ctx, o, opts...)
}

func (s *site) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	body, err := p.Data(o)
	if err != nil {
		return err
	}
	if err := s.record(ctx, "patch", o, string(body)); err != nil {
		return err
	}
	return c.Patch(ctx, o, p, opts...)
}

func (s *site) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	if err := s.record(ctx, "delete", o, ""); err != nil {
		return err
	}
	return c.Delete(ctx, o, opts...)
}

// passed lets the console act as users.
func (s *site) passed() *site {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = s.console.impersonates.Start(ctx) }()
	for s.console.impersonates.Passed() != nil {
		time.Sleep(time.Millisecond)
	}
	return s
}

// request returns a request of a page of the console by a user, "" for nobody.
func (s *site) request(user, method, path string, form url.Values) *http.Request {
	r := httptest.NewRequest(method, "https://vdi.example.com"+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if user != "" {
		identity, err := login.New(user, []string{"staff"}, time.Now(), time.Hour)
		if err != nil {
			s.t.Fatal(err)
		}
		cookie, err := s.console.logins.cookies.Login(identity)
		if err != nil {
			s.t.Fatal(err)
		}
		r.AddCookie(cookie)
	}
	return r
}

// navigated marks a request as one of a person who opens a page.
func navigated(r *http.Request) *http.Request {
	r.Header.Set("Sec-Fetch-Dest", "document")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	return r
}

func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

func newTemplate(name string, change func(*v1alpha1.VDITemplate)) *v1alpha1.VDITemplate {
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.Title, t.Status.AvailableClusters = "The "+name, 1
	if change != nil {
		change(t)
	}
	return t
}

func session(user, name string, change func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: name, UID: types.UID("uid-" + name)}}
	s.Spec.User, s.Spec.Template = user, "browser"
	if change != nil {
		change(s)
	}
	return s
}

// running makes a session Running.
func running(s *v1alpha1.VDISession) {
	for _, kind := range []string{"Accepted", "Scheduled", "Assigned", "HomeReady", "PodReady", "EndpointReady", "Ready"} {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Ready"})
	}
	s.Status.Epoch, s.Status.Endpoint = 1, &v1alpha1.SessionEndpoint{URL: "https://desktop.example.com/"}
}

func suspended(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeSuspended }

func forbidden(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}}
}
