package hub

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Options are the options of the hub. Their flags in AddFlags document them.
type Options struct {
	// Version of the hub, for traces. No flag sets it.
	Version string
	// Namespace of leases, template revisions and the leader's lock.
	Namespace string
	LeaderOptions
	LinkOptions
	SessionOptions
	FailoverOptions
	TracingOptions
	MetricsBindAddress, HealthProbeBindAddress string
	MetricsAuthentication                      bool
	TimeFactor                                 float64
	KubeAPIQPS                                 float32
	KubeAPIBurst                               int
}

// LeaderOptions are about this replica and its election.
type LeaderOptions struct {
	LeaderElect      bool
	LeaderElectionID string
	// PodName is labeled while it leads; empty if the hub does not run in a Pod.
	PodName, PodNamespace string
}

// LinkOptions are about the link to the agents.
type LinkOptions struct {
	LinkBindAddress string
	LinkDNSNames    []string
	// TLSCertFile, TLSKeyFile and ClientCAFile are all set if another authority issues
	// certificates, and all empty if the hub does.
	TLSCertFile, TLSKeyFile, ClientCAFile string
	TrustDomain                           string
}

// SessionOptions are about the namespaces of sessions.
type SessionOptions struct {
	SessionNamespaces        []string
	AllNamespaces, UserRoles bool
	// ConsoleURL is the address of the console, without a path; empty if there is none.
	ConsoleURL string
}

// FailoverOptions are unscaled timings of failover. A Lease or Regain of 0 means the default.
type FailoverOptions struct{ FailoverAfter, Lease, Regain time.Duration }

// TracingOptions are about the traces of sessions' lifecycles: see package tracing.
type TracingOptions struct {
	TracingEndpoint      string
	TracingInsecure      bool
	TracingSamplingRatio float64
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Namespace, "namespace", "vdi-system", "Namespace of the hub's leases and template revisions.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "Elect a leader among the hub's replicas.")
	fs.StringVar(&o.LeaderElectionID, "leader-election-id", "vdi-hub", "Name of the leader's lock.")
	fs.StringVar(&o.PodName, "pod-name", os.Getenv("POD_NAME"), "Name of this replica's own Pod, which is labeled while it leads; by default $POD_NAME.")
	fs.StringVar(&o.PodNamespace, "pod-namespace", os.Getenv("POD_NAMESPACE"), "Namespace of that Pod; by default $POD_NAMESPACE.")
	fs.StringVar(&o.LinkBindAddress, "link-bind-address", ":8443", "Address on which the leader listens for agents.")
	fs.StringArrayVar(&o.LinkDNSNames, "link-dns-name", nil, "Name (DNS or IP) that agents dial, in the hub's certificate in addition to vdi-hub.NAMESPACE.svc and localhost; may be repeated.")
	fs.StringSliceVar(&o.SessionNamespaces, "session-namespaces", nil, "The only namespaces whose sessions are accepted, and beside --namespace the only ones whose Secrets are read. The ClusterRole vdi-hub-sessions must be bound in these and nowhere else. Required, unless --all-namespaces is set.")
	fs.BoolVar(&o.AllNamespaces, "all-namespaces", false, "Accept sessions of all namespaces, in place of --session-namespaces. The ClusterRole vdi-hub-sessions must be bound in the whole cluster: the hub can then read every Secret of it.")
	fs.BoolVar(&o.UserRoles, "user-roles", false, "Let users read the passwords of their own sessions: keep a Role and a RoleBinding for each user and session namespace that allow get on the user's access Secrets by name. Needs the ClusterRole vdi-hub-user-roles where vdi-hub-sessions is bound.")
	fs.StringVar(&o.ConsoleURL, "console-url", "", "Address of the console, such as https://vdi.example.com: status.url of each session is then its page there, which never changes. Empty if there is no console.")
	fs.StringVar(&o.TLSCertFile, "tls-cert-file", "", "Certificate of the link's server (PEM), if certificates are issued outside of the hub.")
	fs.StringVar(&o.TLSKeyFile, "tls-key-file", "", "Key of the link's server (PEM).")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", "", "Authorities that agents' certificates are verified with (PEM).")
	fs.StringVar(&o.TrustDomain, "trust-domain", "vdi-fleet.local", "Trust domain of the agents' identities.")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8080", "Address on which metrics are served; 0 disables them.")
	fs.BoolVar(&o.MetricsAuthentication, "metrics-authentication", true, "Serve metrics over HTTPS, to callers whom the hub's API server authenticates by their bearer token and allows to get /metrics (ClusterRole vdi-hub-metrics-reader). If false, they are served over HTTP to all who reach the port.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "Address on which /healthz and /readyz are served.")
	fs.Float64Var(&o.TimeFactor, "time-factor", 1, "Scales every timing of the link; 1 in production, the same on hub and agents.")
	timings := failover.DefaultTimings(1)
	fs.DurationVar(&o.FailoverAfter, "failover-after", timings.After, "How long a session with failover mode Restart waits after its member became Unreachable, unless it sets a time of its own. Scaled by --time-factor.")
	fs.DurationVar(&o.Lease, "lease", timings.Lease, "How long sessions with failover mode Fence continue in a member that receives nothing from the hub. Scaled by --time-factor.")
	fs.DurationVar(&o.Regain, "regain", timings.Regain, "How long after the last lease renewal of a lost member its sessions with failover mode Fence are rescheduled, and how long a hub leads before it reschedules any session of a lost member. Scaled by --time-factor.")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", 500, "Requests a second to the hub's API server.")
	fs.StringVar(&o.TracingEndpoint, "tracing-endpoint", "", "OpenTelemetry collector for traces of sessions' lifecycles (OTLP over gRPC): host:port, or a URL of http or https; by default $OTEL_EXPORTER_OTLP_ENDPOINT, and nothing is traced if that is empty.")
	fs.BoolVar(&o.TracingInsecure, "tracing-insecure", false, "Connect to the collector without TLS.")
	fs.Float64Var(&o.TracingSamplingRatio, "tracing-sampling-ratio", -1, "Share of the lifecycles that are traced, from 0 to 1, here and in the members; by default $OTEL_TRACES_SAMPLER, or else all.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", 1000, "Burst of requests to the hub's API server.")
}

// Validate returns an error for invalid options.
func (o *Options) Validate() error {
	var errs []error
	need := func(flag, value string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("--%s is required", flag))
		}
	}
	need("namespace", o.Namespace)
	if !o.issuesCertificates() {
		need("tls-cert-file", o.TLSCertFile)
		need("tls-key-file", o.TLSKeyFile)
		need("client-ca-file", o.ClientCAFile)
	}
	for _, name := range o.LinkDNSNames {
		errs = append(errs, checkLinkName(name))
	}
	need("trust-domain", o.TrustDomain)
	errs = append(errs, o.checkNamespaces(), o.checkConsole())
	if o.TimeFactor <= 0 || o.TimeFactor > 100 {
		errs = append(errs, fmt.Errorf("--time-factor %v is not between 0 and 100", o.TimeFactor))
	}
	errs = append(errs, o.tracing().Validate())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return o.timings().Validate()
}

// checkNamespaces requires a decision on the namespaces of sessions: by default the
// hub reads no Secrets beyond its own namespace.
func (o *SessionOptions) checkNamespaces() error {
	switch {
	case o.AllNamespaces && len(o.SessionNamespaces) > 0:
		return errors.New("--session-namespaces and --all-namespaces exclude each other: set only one of them")
	case !o.AllNamespaces && len(o.SessionNamespaces) == 0:
		return errors.New("the namespaces of sessions are not set: name them with --session-namespaces, " +
			"or accept sessions of all namespaces with --all-namespaces, and the hub can read every Secret of its cluster")
	}
	return nil
}

// checkConsole requires an address without a path, if there is a console.
func (o *SessionOptions) checkConsole() error {
	u, err := url.Parse(o.ConsoleURL)
	if err != nil || o.ConsoleURL != "" && (u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Scheme != "https" && u.Scheme != "http") {
		return fmt.Errorf("--console-url %q is not the address of a console: set a scheme and a host, such as https://vdi.example.com", o.ConsoleURL)
	}
	return nil
}

// timings returns the timings of the link and of failover, scaled.
func (o *Options) timings() health.Timings {
	t, f := health.DefaultTimings(o.TimeFactor), failover.DefaultTimings(1)
	f.After = o.FailoverAfter
	if o.Lease != 0 {
		f.Lease = o.Lease
	}
	if o.Regain != 0 {
		f.Regain = o.Regain
	}
	t.Failover = f.Scaled(o.TimeFactor)
	return t
}

func (o *Options) tracing() tracing.Options {
	out := tracing.Options{
		Endpoint: o.TracingEndpoint, Insecure: o.TracingInsecure,
		Service: "vdi-hub", Version: o.Version, Instance: o.PodName, Namespace: o.PodNamespace,
	}
	if ratio := o.TracingSamplingRatio; ratio >= 0 {
		out.Ratio = &ratio
	}
	return out
}

func (o *Options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.TimeFactor)
}
