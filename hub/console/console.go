package console

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/check"
	"github.com/vdi-fleet/vdi-fleet/hub/console/impersonation"
	"github.com/vdi-fleet/vdi-fleet/hub/console/keys"
	"github.com/vdi-fleet/vdi-fleet/hub/console/live"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/hub/console/reach"
	"github.com/vdi-fleet/vdi-fleet/hub/console/tickets"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
	"github.com/vdi-fleet/vdi-fleet/proto/reconnect"
	"github.com/vdi-fleet/vdi-fleet/proto/recorder"
)

// console is a replica of the console.
type console struct {
	reader
	pages
	auditor
	logins  logins
	passes  passes
	options Options
	url     *url.URL
	// users writes to the API server as the users of contexts.
	users client.Client
	// impersonates is the check that the console may act as users.
	impersonates *check.Check
	// answers is the check that the hub's API server answers.
	answers *check.Check
	topics  *live.Topics
	// draining ends when the replica ends, before the requests in progress.
	draining context.Context
}

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdisessions,verbs=get;list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vditemplates,verbs=list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdisessions,verbs="impersonate-on:user-info:create";"impersonate-on:user-info:patch";"impersonate-on:user-info:delete"

// Run runs a replica of the console against the hub's cluster until the context ends.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst, cfg.UserAgent = o.KubeAPIQPS, o.KubeAPIBurst, "vdi-console/"+o.Version
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme:                 scheme,
		Metrics:                metrics.Options(o.MetricsBindAddress, o.MetricsAuthentication),
		HealthProbeBindAddress: o.HealthProbeBindAddress,
		NewCache:               reconnect.NewCache,
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}:          keys.Cached(o.Namespace),
				&v1alpha1.VDISession{}:    {Transform: trimmed},
				&v1alpha1.MemberCluster{}: {Transform: trimmedMember},
			},
			DefaultTransform: cache.TransformStripManagedFields(),
		},
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := setup(ctx, mgr, cfg, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// setup adds the parts of a replica to the manager.
func setup(ctx context.Context, mgr manager.Manager, cfg *rest.Config, o Options) error {
	users, err := impersonation.NewClient(cfg, mgr.GetScheme(), mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	keeper := &keys.Keeper{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: o.Namespace, Clock: clock.RealClock{}}
	if err := keeper.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the keys: %w", err)
	}
	c, err := newConsole(o, keeper)
	if err != nil {
		return err
	}
	c.cache, c.live, c.users = mgr.GetClient(), mgr.GetAPIReader(), users
	c.passes = passes{sign: keeper.Sign, recorder: recorder.Limited(mgr.GetEventRecorder("vdi-console")), prober: reach.NewProber()}
	c.authorizer = impersonation.NewAuthorizer(mgr.GetClient())
	c.impersonates = &check.Check{
		Of: "impersonation", Run: impersonation.Permitted(mgr.GetClient(), users, impersonation.Mode(o.Impersonation)), Clock: clock.RealClock{},
	}
	if c.answers.Run, err = ready(cfg, mgr.GetHTTPClient()); err != nil {
		return err
	}
	guarded := &check.Check{Of: "the admission of tickets", Run: tickets.Guarded(mgr.GetClient(), o.Namespace), Clock: clock.RealClock{}}
	c.logins.redeemer = &tickets.Redeemer{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Guarded: guarded.Passed, Clock: clock.RealClock{}}
	if err := errors.Join(c.watch(ctx, mgr.GetCache()), c.watchDoors(ctx, mgr.GetCache())); err != nil {
		return err
	}
	certificate, err := addCertificate(mgr, o)
	if err != nil {
		return err
	}
	if err := errors.Join(
		mgr.Add(c.impersonates), mgr.Add(c.answers), mgr.Add(guarded), mgr.Add(manager.RunnableFunc(c.logins.redeemer.Sweep)),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			if err := keeper.Prepare(ctx); err != nil {
				return err
			}
			return c.serve(ctx, certificate)
		})),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("cache", func(r *http.Request) error {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			if !mgr.GetCache().WaitForCacheSync(ctx) {
				return errors.New("the console's cache has not synced")
			}
			return nil
		}),
		mgr.AddReadyzCheck("impersonation", func(*http.Request) error { return c.impersonates.Passed() }),
		mgr.AddReadyzCheck("tickets", func(*http.Request) error { return guarded.Passed() }),
	); err != nil {
		return fmt.Errorf("setting up the console: %w", err)
	}
	ctrl.Log.Info("Starting the console", "url", o.URL, "oidc", o.IssuerURL, "usersFile", o.UsersFile, "impersonation", o.Impersonation)
	return nil
}

const (
	// askEvery is how often the API server is asked whether it is ready, and askTimeout how long it has to answer.
	askEvery   = 5 * time.Second
	askTimeout = 5 * time.Second
)

// ready returns a check that an API server is ready: that it answers, and reaches its storage.
func ready(cfg *rest.Config, client *http.Client) (func(context.Context) error, error) {
	server, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		return server.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}, nil
}

// addCertificate returns the certificate of the pages, which is read again when its files change, or nil if TLS ends
// before the console.
func addCertificate(mgr manager.Manager, o Options) (*certwatcher.CertWatcher, error) {
	if o.TLSCertFile == "" {
		return nil, nil
	}
	watcher, err := certwatcher.New(o.TLSCertFile, o.TLSKeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the pages: %w", err)
	}
	return watcher, mgr.Add(watcher)
}

// newConsole returns a console that is not connected to an API server.
func newConsole(o Options, ring login.Keys) (*console, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	templates, err := parseTemplates(time.Now)
	if err != nil {
		return nil, err
	}
	c := &console{
		reader: reader{sessionNamespaces: o.SessionNamespaces, survey: &survey{}}, pages: pages{templates: templates}, auditor: auditor{o.trusted()},
		options: o, url: u, topics: live.NewTopics(), draining: context.Background(),
	}
	c.answers = &check.Check{Of: "the hub's API server", Every: askEvery, Changed: func() { c.topics.Mark(aboutSystem) }, Clock: clock.RealClock{}}
	c.pages.away = c.answers.Failing
	c.logins = logins{
		pages: c.pages, auditor: c.auditor, cookies: login.Cookies{Keys: ring, Now: time.Now},
		addresses: newAddressLimits(), lifetime: o.LoginLifetime, now: time.Now,
	}
	if o.UsersFile != "" {
		if c.logins.usersFile, err = login.NewUsersFile(o.UsersFile); err != nil {
			return nil, err
		}
	}
	if o.IssuerURL != "" {
		if c.logins.provider, err = newProvider(o, c.logins.cookies); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// providerTimeout is how long a request to the identity provider may take.
const providerTimeout = 10 * time.Second

// newProvider returns the identity provider of the options.
func newProvider(o Options, cookies login.Cookies) (*login.Provider, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--oidc-ca-file %s has no certificate in PEM", o.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	p := &login.Provider{
		Claims: login.Claims{
			IssuerURL: o.IssuerURL, UsernameClaim: o.UsernameClaim, UsernamePrefix: o.UsernamePrefix,
			GroupsClaim: o.GroupsClaim, GroupsPrefix: o.GroupsPrefix, RequiredClaims: o.RequiredClaims,
		},
		ClientID: o.ClientID, RedirectURL: strings.TrimSuffix(o.URL, "/") + "/login/callback", Scopes: o.Scopes,
		HTTP: &http.Client{Transport: transport, Timeout: providerTimeout}, Cookies: cookies,
	}
	if o.GroupsPattern != "" {
		p.GroupsPattern = regexp.MustCompile(o.GroupsPattern) // Validate has checked it
	}
	if o.ClientSecretFile != "" {
		secret, err := os.ReadFile(o.ClientSecretFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-client-secret-file: %w", err)
		}
		p.ClientSecret = strings.TrimSpace(string(secret))
	}
	return p, nil
}
