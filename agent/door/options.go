package door

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

// Options of a door. Their flags in AddFlags document them.
type Options struct {
	// Version of the door, for the user agent of its requests. No flag sets it.
	Version string
	// Namespace of the ConfigMap.
	Namespace                                               string
	BindAddress, MetricsBindAddress, HealthProbeBindAddress string
	MetricsAuthentication                                   bool
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Namespace, "namespace", "vdi-system", "Namespace of the agent, which keeps the ConfigMap vdi-door there.")
	fs.StringVar(&o.BindAddress, "bind-address", ":8083", "Address on which browsers are served, over HTTP: TLS ends before the door.")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8080", "Address of the metrics endpoint; 0 disables it.")
	fs.BoolVar(&o.MetricsAuthentication, "metrics-authentication", true, "Serve metrics over HTTPS to callers that the member's API server authenticates by their bearer token and authorizes to get /metrics. If false, serve them over HTTP without authentication.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz.")
}

// Validate returns all errors of the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Namespace == "" {
		errs = append(errs, errors.New("--namespace is required"))
	}
	if _, _, err := net.SplitHostPort(o.BindAddress); err != nil {
		errs = append(errs, fmt.Errorf("--bind-address %q is not host:port", o.BindAddress))
	}
	return errors.Join(errs...)
}
