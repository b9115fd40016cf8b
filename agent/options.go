package agent

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"github.com/vdi-fleet/vdi-fleet/agent/identity"
	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Options of the agent. AddFlags explains each by the flag that sets it.
type Options struct {
	// Version of the agent, for logs and reports. No flag sets it.
	Version string
	// Member is for logs: the agent's certificate decides which MemberCluster it is.
	Member    string
	Namespace string
	HubOptions
	LeaderElect                                bool
	MetricsBindAddress, HealthProbeBindAddress string
	MetricsAuthentication                      bool
	TimeFactor                                 float64
	DesktopOptions
	GuardOptions
	KubeAPIQPS   float32
	KubeAPIBurst int
	// TracingEndpoint is of the traces of sessions that the hub has sampled.
	TracingEndpoint string
	TracingInsecure bool
	Restrictions    restriction.Settings
}

// HubOptions are how the agent reaches the hub, and who it is there.
type HubOptions struct {
	HubAddress, HubServerName string
	// TLSCertFile, TLSKeyFile and HubCAFile are for a certificate that another authority
	// issues. Without them the agent enrolls with a token and rotates its certificate
	// itself.
	TLSCertFile, TLSKeyFile, HubCAFile string
	BootstrapTokenFile                 string
	HubCAHashes                        []string
}

// DesktopOptions are how the member runs desktops.
type DesktopOptions struct {
	Gateway, GatewayNamespaceSelector, TLSSecret string
	FailAfter, CleanupDeadline                   time.Duration
}

// GuardOptions are those of the guards beside fenced desktops and the gates before held
// ones.
type GuardOptions struct {
	GuardImage, LeaseURL, LeaseAddress string
	GuardPort                          int32
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Member, "member", "", "Name of the MemberCluster that this cluster is, for logs.")
	fs.StringVar(&o.Namespace, "namespace", "vdi-system", "Namespace of the agent's state and the leader's lock.")
	fs.StringVar(&o.HubAddress, "hub-address", "", "Host and port where the hub listens for agents.")
	fs.StringVar(&o.HubServerName, "hub-server-name", "", "DNS name that the hub's certificate must have; by default the host of --hub-address.")
	fs.StringVar(&o.TLSCertFile, "tls-cert-file", "", "Certificate of this agent (PEM), if it is issued outside of the hub; by default the agent joins with a token and rotates its certificate itself.")
	fs.StringVar(&o.TLSKeyFile, "tls-key-file", "", "Key of this agent (PEM).")
	fs.StringVar(&o.HubCAFile, "hub-ca-file", "", "Authorities that the hub's certificate is verified with (PEM).")
	fs.StringVar(&o.BootstrapTokenFile, "bootstrap-token-file", "", "File with a join token, if it is not in the Secret vdi-agent-bootstrap.")
	fs.StringSliceVar(&o.HubCAHashes, "hub-ca-hash", nil, "Hash of the hub's CA, sha256: and 64 hexadecimal digits, if it is not in the Secret vdi-agent-bootstrap; any of several.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "Elect a leader among the agent's replicas.")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8080", "Where metrics are served; 0 for nowhere.")
	fs.BoolVar(&o.MetricsAuthentication, "metrics-authentication", true, "Serve metrics over HTTPS, to callers whom the member's API server authenticates by their bearer token and allows to get /metrics (ClusterRole vdi-agent-metrics-reader). With false they are served over HTTP to everybody who reaches the port.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "Where /healthz and /readyz are served.")
	fs.Float64Var(&o.TimeFactor, "time-factor", 1, "Scales every timing of the link; 1 in production, the same on hub and agents.")
	fs.StringVar(&o.Gateway, "gateway", "", "Gateway that HTTPRoutes are made for, as namespace/name or namespace/name/section; by default Ingresses are made.")
	fs.StringVar(&o.GatewayNamespaceSelector, "gateway-namespace-selector", v1alpha1.LabelGateway+"=true", "Labels of the namespaces whence desktops may be reached, those of the gateway or ingress controller.")
	fs.StringVar(&o.TLSSecret, "tls-secret", "", "Secret with the certificate of Ingresses whose template names none; by default the ingress controller's own.")
	fs.DurationVar(&o.FailAfter, "fail-after", 5*time.Minute, "How long a desktop may be in trouble that could pass, such as an image that can't be pulled, before the attempt fails permanently.")
	fs.DurationVar(&o.CleanupDeadline, "cleanup-deadline", 2*time.Minute, "How long a stopped session waits for what is left of it, except Pods, before its finalizer is removed.")
	fs.StringVar(&o.GuardImage, "guard-image", "", "Image, the agent's own, of the guard that stops a desktop of failover mode Fence when the hub's lease is over and no agent is alive, and of the gate behind which one of mode Hold waits for the hub when its Pod restarts, as after a power cut. Without it sessions of mode Fence are held as with Hold; and where an operator has declared this member fenced, its Hold desktops may run for the seconds that the agent needs to reach the hub once power is back.")
	fs.StringVar(&o.LeaseURL, "lease-url", "", "Where guards and gates reach the agent, such as http://vdi-agent-lease.vdi-system.svc:8082; needed with --guard-image.")
	fs.StringVar(&o.LeaseAddress, "lease-address", ":8082", "Where the agent listens for guards and gates, with --guard-image.")
	fs.Int32Var(&o.GuardPort, "guard-port", 8079, "Port within a desktop's Pod on which its guard answers the kubelet.")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", 200, "Requests a second to the member's API server.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", 400, "Burst of requests to the member's API server.")
	fs.StringVar(&o.TracingEndpoint, "tracing-endpoint", "", "Where an OpenTelemetry collector takes traces of sessions' walks by OTLP over gRPC: host:port, or a URL of http or https; by default what OTEL_EXPORTER_OTLP_ENDPOINT says, and nothing is traced where that is empty. The hub decides which walks are traced.")
	fs.BoolVar(&o.TracingInsecure, "tracing-insecure", false, "Speak to the collector without TLS.")
	o.Restrictions.AddFlags(fs)
}

// Validate returns all that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	need := func(flag, value string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("--%s is required", flag))
		}
	}
	need("namespace", o.Namespace)
	need("hub-address", o.HubAddress)
	if o.issuedByOthers() {
		need("tls-cert-file", o.TLSCertFile)
		need("tls-key-file", o.TLSKeyFile)
		need("hub-ca-file", o.HubCAFile)
		if o.BootstrapTokenFile != "" || len(o.HubCAHashes) > 0 {
			errs = append(errs, errors.New("--bootstrap-token-file and --hub-ca-hash are for joining; with --tls-cert-file the agent does not join"))
		}
	}
	for _, hash := range o.HubCAHashes {
		if !caHash.MatchString(hash) {
			errs = append(errs, fmt.Errorf("--hub-ca-hash %q is not sha256: and 64 hexadecimal digits", hash))
		}
	}
	if o.TimeFactor <= 0 || o.TimeFactor > 100 {
		errs = append(errs, fmt.Errorf("--time-factor %v is not between 0 and 100", o.TimeFactor))
	}
	if _, err := o.session(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.tracing().Validate(), o.Restrictions.Validate())
	return errors.Join(errs...)
}

// caHash is the form of what identity.verifyPinned compares with.
var caHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// issuedByOthers reports whether the agent's certificate comes in files.
func (o *Options) issuedByOthers() bool {
	return o.TLSCertFile != "" || o.TLSKeyFile != "" || o.HubCAFile != ""
}

func (o *Options) identity() identity.Options {
	return identity.Options{
		Namespace: o.Namespace, Member: o.Member, AgentVersion: o.Version,
		HubAddress: o.HubAddress, HubServerName: o.HubServerName,
		TokenFile: o.BootstrapTokenFile, CAHashes: o.HubCAHashes,
	}
}

func (o *Options) link(instance string) link.Options {
	return link.Options{
		HubAddress: o.HubAddress, HubServerName: o.HubServerName,
		Credentials:  link.Files{CertFile: o.TLSCertFile, KeyFile: o.TLSKeyFile, HubCAFile: o.HubCAFile},
		AgentVersion: o.Version, Instance: instance, TimeFactor: o.TimeFactor,
		Restrictions: o.Restrictions.Wire(),
	}
}

// restrictions returns those of the administrator, and keeps sessions out of the agent's
// namespace.
func (o *Options) restrictions() restriction.Settings {
	s := o.Restrictions
	s.AgentNamespace = o.Namespace
	return s
}

func (o *Options) tracing() tracing.Options {
	return tracing.Options{
		Endpoint: o.TracingEndpoint, Insecure: o.TracingInsecure, Service: "vdi-agent", Version: o.Version,
		Instance: os.Getenv("POD_NAME"), Namespace: o.Namespace, Cluster: o.Member,
	}
}
