package agent

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"github.com/vdi-fleet/vdi-fleet/agent/identity"
	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

// Options of the agent. AddFlags documents each.
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
	BufferOptions
	DoorOptions
	KubeAPIQPS   float32
	KubeAPIBurst int
	// TracingEndpoint receives the traces of sessions that the hub has sampled.
	TracingEndpoint string
	TracingInsecure bool
	Restrictions    restriction.Settings
	// NodeGroupTimes are for tests of node groups: the autoscalers' own times do not scale.
	NodeGroupTimes nodegroup.Times
}

// HubOptions are how the agent connects to the hub.
type HubOptions struct {
	HubAddress, HubServerName string
	// TLSCertFile, TLSKeyFile and HubCAFile are for a certificate that another CA issues.
	// Without them the agent enrolls with a token and rotates its certificate itself.
	TLSCertFile, TLSKeyFile, HubCAFile string
	BootstrapTokenFile                 string
	HubCAHashes                        []string
}

// DesktopOptions are how the member runs desktops.
type DesktopOptions struct {
	Gateway, GatewayNamespaceSelector, TLSSecret string
	FailAfter, CleanupDeadline                   time.Duration
}

// GuardOptions are those of guards and gates.
type GuardOptions struct {
	GuardImage, LeaseURL, LeaseAddress string
	GuardPort                          int32
}

// BufferOptions are those of buffers.
type BufferOptions struct {
	BufferImage       string
	BufferPullSecrets []string
}

// DoorOptions are those of the member's door.
type DoorOptions struct {
	DoorURL, DoorIngressClass string
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Member, "member", "", "Name of this cluster's MemberCluster, for logs.")
	fs.StringVar(&o.Namespace, "namespace", "vdi-system", "Namespace of the agent's state and the leader's lock.")
	fs.StringVar(&o.HubAddress, "hub-address", "", "Host and port of the hub's endpoint for agents.")
	fs.StringVar(&o.HubServerName, "hub-server-name", "", "DNS name that the hub's certificate must have; by default the host of --hub-address.")
	fs.StringVar(&o.TLSCertFile, "tls-cert-file", "", "Certificate of this agent (PEM), if the hub does not issue it; by default the agent joins with a token and rotates its certificate.")
	fs.StringVar(&o.TLSKeyFile, "tls-key-file", "", "Key of this agent (PEM).")
	fs.StringVar(&o.HubCAFile, "hub-ca-file", "", "CAs that verify the hub's certificate (PEM).")
	fs.StringVar(&o.BootstrapTokenFile, "bootstrap-token-file", "", "File with a join token, if it is not in the Secret vdi-agent-bootstrap.")
	fs.StringSliceVar(&o.HubCAHashes, "hub-ca-hash", nil, "Hash of the hub's CA, sha256: and 64 hexadecimal digits, if it is not in the Secret vdi-agent-bootstrap. Any of several may match.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "Elect a leader among the agent's replicas.")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8080", "Address of the metrics endpoint; 0 disables it.")
	fs.BoolVar(&o.MetricsAuthentication, "metrics-authentication", true, "Serve metrics over HTTPS to callers that the member's API server authenticates by their bearer token and authorizes to get /metrics (ClusterRole vdi-agent-metrics-reader). If false, serve them over HTTP without authentication.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz.")
	fs.Float64Var(&o.TimeFactor, "time-factor", 1, "Factor of all timings of the link; the same on hub and agents, 1 in production.")
	fs.StringVar(&o.Gateway, "gateway", "", "Gateway for HTTPRoutes, as namespace/name or namespace/name/section; by default the agent creates Ingresses.")
	fs.StringVar(&o.GatewayNamespaceSelector, "gateway-namespace-selector", v1alpha1.LabelGateway+"=true", "Label selector of the namespaces from which desktops may be reached, those of the gateway or ingress controller.")
	fs.StringVar(&o.TLSSecret, "tls-secret", "", "Secret with the certificate of Ingresses whose template names none; by default the ingress controller's default certificate.")
	fs.DurationVar(&o.FailAfter, "fail-after", 5*time.Minute, "How long a problem that may pass, such as an image that can't be pulled, may last before the attempt fails permanently.")
	fs.DurationVar(&o.CleanupDeadline, "cleanup-deadline", 2*time.Minute, "How long a stopped session waits for the removal of its objects, except Pods, before its finalizer is removed.")
	fs.StringVar(&o.GuardImage, "guard-image", "", "Image of guards and gates, which is the agent's own. A guard stops a desktop of failover mode Fence when the hub's lease is over, even without an agent; a gate makes a desktop of mode Hold wait for the hub when its Pod restarts, as after a power cut. Without the image, mode Fence is treated as Hold, and Hold desktops of a member that was declared fenced may run after a power cut until the agent reaches the hub.")
	fs.StringVar(&o.LeaseURL, "lease-url", "", "URL of the agent for guards and gates, such as http://vdi-agent-lease.vdi-system.svc:8082; required with --guard-image.")
	fs.StringVar(&o.LeaseAddress, "lease-address", ":8082", "Address on which the agent listens for guards and gates, with --guard-image.")
	fs.Int32Var(&o.GuardPort, "guard-port", 8079, "Port of the guard in a desktop's Pod, which the kubelet probes.")
	fs.StringVar(&o.BufferImage, "buffer-image", "", "Image of the Pods of buffers, which is the agent's own. They keep slots free as spec.buffers of the MemberCluster states, and desktops preempt them. Without the image no buffer is kept.")
	fs.StringSliceVar(&o.BufferPullSecrets, "buffer-pull-secret", nil, "Secrets in --namespace for pulling --buffer-image.")
	fs.StringVar(&o.DoorURL, "door-url", "", "URL of the member's door, such as http://vdi-door.vdi-system.svc: the agent leads browsers to it, by one Ingress or HTTPRoute for all desktops, once it has answered. Without it each desktop has an Ingress or HTTPRoute of its own.")
	fs.StringVar(&o.DoorIngressClass, "door-ingress-class", "", "Ingress class of the door's Ingress, with --door-url; by default the cluster's default class.")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", 200, "Requests per second to the member's API server.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", 400, "Burst of requests to the member's API server.")
	fs.StringVar(&o.TracingEndpoint, "tracing-endpoint", "", "Endpoint of an OpenTelemetry collector for traces of sessions, by OTLP over gRPC: host:port, or an http or https URL; by default OTEL_EXPORTER_OTLP_ENDPOINT. Without one nothing is traced. The hub samples the traces.")
	fs.BoolVar(&o.TracingInsecure, "tracing-insecure", false, "Connect to the collector without TLS.")
	o.Restrictions.AddFlags(fs)
	o.addNodeGroupFlags(fs)
}

// addNodeGroupFlags defines hidden flags: their defaults suit every autoscaler.
func (o *Options) addNodeGroupFlags(fs *pflag.FlagSet) {
	for _, f := range []struct {
		name, usage string
		value       *time.Duration
	}{
		{"node-group-trigger-timeout", "How long a Pod may wait for a node group that adds no node; 0: 1m.", &o.NodeGroupTimes.Trigger},
		{"node-group-launch-timeout", "How long the launch of a node may take; 0: 1m.", &o.NodeGroupTimes.Launch},
		{"node-group-provisioning-timeout", "How long a node may take to become usable; 0: 5m, and twice the usual time if that is more.", &o.NodeGroupTimes.Provisioning},
		{"node-group-backoff", "How long a node group that adds no node is not used at first; 0: 5m.", &o.NodeGroupTimes.Backoff},
	} {
		fs.DurationVar(f.value, f.name, 0, f.usage)
		fs.Lookup(f.name).Hidden = true
	}
}

// Validate returns all errors of the options.
func (o *Options) Validate() error {
	var errs []error
	require := func(flag, value string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("--%s is required", flag))
		}
	}
	require("namespace", o.Namespace)
	require("hub-address", o.HubAddress)
	if o.externallyIssued() {
		require("tls-cert-file", o.TLSCertFile)
		require("tls-key-file", o.TLSKeyFile)
		require("hub-ca-file", o.HubCAFile)
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
	errs = append(errs, o.tracing().Validate(), o.Restrictions.Validate(), o.validateDoor())
	return errors.Join(errs...)
}

func (o *Options) validateDoor() error {
	if o.DoorURL == "" {
		if o.DoorIngressClass != "" {
			return errors.New("--door-ingress-class requires --door-url")
		}
		return nil
	}
	if u, err := url.Parse(o.DoorURL); err != nil || u.Scheme != "http" || u.Host == "" || u.Path != "" {
		return fmt.Errorf("--door-url %q is not http://HOST or http://HOST:PORT", o.DoorURL)
	}
	return nil
}

// caHash is the format of a pinned CA hash.
var caHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// externallyIssued reports whether the agent's certificate is in files.
func (o *Options) externallyIssued() bool {
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
		Restrictions: o.Restrictions.Wire(), Capabilities: o.capabilities(),
	}
}

// capabilities returns those of the agent beyond the base protocol.
func (o *Options) capabilities() []string {
	if o.DoorURL == "" {
		return nil
	}
	return []string{version.Door}
}

// restrictions returns the administrator's, and excludes the agent's namespace.
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
