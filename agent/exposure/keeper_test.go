package exposure

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/door"
	"github.com/vdi-fleet/vdi-fleet/agent/objects"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const namespace = "vdi-system"

// fixture is a member whose door answers once it is set to.
type fixture struct {
	*testing.T
	store   client.WithWatch
	keeper  *Keeper
	answers atomic.Bool
	asked   atomic.Int32
	writes  int
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{T: t}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}}}
	class.Spec.Controller = "k8s.io/ingress-nginx"
	count := func() { f.writes++ }
	f.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(class, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: render.DoorName, UID: "uid-service"},
	}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			count()
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			count()
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		if r.URL.Path != door.ReadyPath || !f.answers.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	o := Options{
		Store:   objects.Store{Live: f.store, Client: f.store, Namespace: namespace},
		Classes: f.store, URL: server.URL, Network: render.Network{AgentNamespace: namespace, TLSSecretName: "wildcard"},
		Restrictions: restriction.Defaults(),
	}
	if change != nil {
		change(&o)
	}
	f.keeper = NewKeeper(o)
	return f
}

// sent is what the hub sends.
func sent() *fleetv1.DoorConfig {
	return &fleetv1.DoorConfig{
		ConsoleOrigin: "https://vdi.example.com", Domain: "eu.desktops.example.com",
		Keys: []*fleetv1.VisitKey{{Id: "a", PublicKey: make([]byte, 32)}},
	}
}

// exists reads an object of the door, and reports whether there is one.
func (f *fixture) exists(o client.Object) bool {
	f.Helper()
	err := f.store.Get(f.Context(), types.NamespacedName{Namespace: namespace, Name: render.DoorName}, o)
	if client.IgnoreNotFound(err) != nil {
		f.Fatal(err)
	}
	return err == nil
}

func (f *fixture) inForce() bool {
	f.Helper()
	inForce, err := f.keeper.InForce(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return inForce
}

// sync expects that a pass succeeds.
func (f *fixture) sync() {
	f.Helper()
	if err := f.keeper.sync(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// No desktop loses its own Ingress before the door has answered; it is in force from then on, whatever happens to it.
func TestTheDoorIsInForceOnceItHasAnswered(t *testing.T) {
	f := newFixture(t, nil)
	f.sync()
	if f.inForce() || f.exists(&corev1.ConfigMap{}) || f.writes > 0 {
		t.Error("there is something before the hub has sent anything")
	}
	f.keeper.SetDoor(sent())
	if err := f.keeper.sync(t.Context()); err == nil || f.inForce() || f.exists(&networkingv1.Ingress{}) {
		t.Errorf("the door does not answer: %v", err)
	}
	config := &corev1.ConfigMap{}
	if !f.exists(config) {
		t.Fatal("the door does not get what it needs to answer")
	}
	if got, err := door.ParseConfig(config.Data[door.ConfigEntry]); err != nil || got.ConsoleOrigin != "https://vdi.example.com" || len(got.Keys) != 1 {
		t.Errorf("the door gets %+v, %v", got, err)
	}
	f.answers.Store(true)
	f.sync()
	ingress := &networkingv1.Ingress{}
	if !f.exists(ingress) || !f.inForce() {
		t.Fatal("it is not in force although it answers")
	}
	select {
	case <-f.keeper.Changes():
	default:
		t.Error("no session is reconciled")
	}
	rule, tls := ingress.Spec.Rules[0], ingress.Spec.TLS[0]
	if rule.Host != "*.eu.desktops.example.com" || rule.HTTP.Paths[0].Backend.Service.Name != render.DoorName || tls.SecretName != "wildcard" {
		t.Errorf("the Ingress is %+v", ingress.Spec)
	}
	if ingress.Annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "" {
		t.Error("its controller ends idle WebSockets")
	}
	for _, o := range []client.Object{ingress, config} {
		if owners := o.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "uid-service" {
			t.Errorf("%T is not deleted with the door: %v", o, owners)
		}
	}
	// Nothing is written or asked again, and an outage of the door changes nothing, in this process or the next.
	f.answers.Store(false)
	writes, asked := f.writes, f.asked.Load()
	f.sync()
	next := NewKeeper(f.keeper.options)
	f.keeper = next
	f.sync()
	if !f.inForce() || f.writes != writes || f.asked.Load() != asked {
		t.Errorf("in force: %v, %d writes, %d questions more", f.inForce(), f.writes-writes, f.asked.Load()-asked)
	}
}

func TestTheIngressIsRepaired(t *testing.T) {
	f := newFixture(t, nil)
	f.answers.Store(true)
	f.keeper.SetDoor(sent())
	f.sync()
	changed := &networkingv1.Ingress{}
	f.exists(changed)
	changed.Spec.Rules[0].Host, changed.Annotations = "other.example.com", map[string]string{"theirs": "stays"}
	if err := f.store.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	f.sync()
	repaired := &networkingv1.Ingress{}
	f.exists(repaired)
	if repaired.Spec.Rules[0].Host != "*.eu.desktops.example.com" || repaired.Annotations["theirs"] != "stays" || len(repaired.Annotations) < 2 {
		t.Errorf("the Ingress is %+v", repaired)
	}
	moved := sent()
	moved.Domain = "paris.desktops.example.com"
	f.keeper.SetDoor(moved)
	f.sync()
	if f.exists(repaired); repaired.Spec.Rules[0].Host != "*.paris.desktops.example.com" {
		t.Errorf("with another domain its host is %s", repaired.Spec.Rules[0].Host)
	}
}

// The API server sets the class of an Ingress that has none.
func TestTheDefaultClassStays(t *testing.T) {
	f := newFixture(t, nil)
	f.answers.Store(true)
	f.keeper.SetDoor(sent())
	f.sync()
	ingress := &networkingv1.Ingress{}
	f.exists(ingress)
	ingress.Spec.IngressClassName = ptr.To("nginx")
	if err := f.store.Update(t.Context(), ingress); err != nil {
		t.Fatal(err)
	}
	writes := f.writes
	f.sync()
	f.exists(ingress)
	if f.writes != writes || ingress.Spec.IngressClassName == nil {
		t.Errorf("%d writes, and its class is %v", f.writes-writes, ingress.Spec.IngressClassName)
	}
}

// A hub without a console can't admit anyone: the desktops get Ingresses of their own again.
func TestWithoutAConsoleTheDoorIsNotInForce(t *testing.T) {
	f := newFixture(t, nil)
	f.answers.Store(true)
	f.keeper.SetDoor(sent())
	f.sync()
	<-f.keeper.Changes()
	f.keeper.SetDoor(&fleetv1.DoorConfig{})
	f.sync()
	if f.inForce() || f.exists(&networkingv1.Ingress{}) || f.exists(&corev1.ConfigMap{}) {
		t.Error("what leads to the door is still there")
	}
	select {
	case <-f.keeper.Changes():
	default:
		t.Error("no session is reconciled")
	}
	f.sync() // nothing is left to delete
}

func TestMembersWithAGateway(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Network = render.Network{AgentNamespace: namespace, Gateway: &render.GatewayRef{Namespace: "gateways", Name: "public"}}
	})
	f.answers.Store(true)
	f.keeper.SetDoor(sent())
	f.sync()
	route := &gatewayv1.HTTPRoute{}
	if !f.exists(route) || f.exists(&networkingv1.Ingress{}) || route.Spec.Hostnames[0] != "*.eu.desktops.example.com" || route.Spec.ParentRefs[0].Name != "public" {
		t.Errorf("the route is %+v", route.Spec)
	}
	f.keeper.SetDoor(&fleetv1.DoorConfig{})
	f.sync()
	if f.exists(route) {
		t.Error("the route is still there")
	}
}

func TestWhatKeepsTheDoorFromBeingInForce(t *testing.T) {
	foreign := func(f *fixture) {
		if err := f.store.Create(f.Context(), &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: render.DoorName}}); err != nil {
			f.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		options func(*Options)
		sent    func(*fleetv1.DoorConfig)
		before  func(*fixture)
		want    string
	}{
		"a domain that the administrator does not allow": {options: func(o *Options) { o.Restrictions.HostSuffixes = []string{"us.example.com"} }, want: "is not allowed in this member"},
		"a domain that is none":                          {sent: func(c *fleetv1.DoorConfig) { c.Domain = "a b" }, want: "is not a domain"},
		"a key that is none":                             {sent: func(c *fleetv1.DoorConfig) { c.Keys[0].PublicKey = nil }, want: "public key a has 0 bytes"},
		"another's Ingress":                              {before: foreign, want: "did not create"},
		"no Service": {before: func(f *fixture) {
			service := &corev1.Service{}
			f.exists(service)
			if err := f.store.Delete(f.Context(), service); err != nil {
				f.Fatal(err)
			}
		}, want: "set door.enabled"},
		"an API server that does not answer": {options: func(o *Options) {
			o.Store.Live = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return apierrors.NewInternalError(errors.New("no storage"))
				},
			})
		}, want: "no storage"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.options)
			f.answers.Store(true)
			if tc.before != nil {
				tc.before(f)
			}
			config := sent()
			if tc.sent != nil {
				tc.sent(config)
			}
			f.keeper.SetDoor(config)
			err := f.keeper.sync(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%v", err)
			}
			if config := (&corev1.ConfigMap{}); f.exists(config) && config.Data[door.InForceEntry] != "" {
				t.Error("it is in force")
			}
		})
	}
}

// Sessions are not reconciled as if there was no door until it is known whether it is in force.
func TestSessionsWaitUntilTheStateIsKnown(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.keeper.InForce(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
