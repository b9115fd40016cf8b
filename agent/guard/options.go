package guard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

// ClientOptions are the options of requests to the agent, and all that a gate needs.
// AddFlags documents each.
type ClientOptions struct {
	LeaseURL, Key        string
	Namespace, Name, UID string
	TimeFactor           float64
}

// Options of a guard. AddFlags documents each.
type Options struct {
	ClientOptions
	// PodIP is where both the guard and the desktop listen.
	PodIP             string
	Port, DesktopPort int32
	StartTimeout      time.Duration
}

// AddFlags defines the flags that set the options.
func (o *ClientOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.LeaseURL, "lease-url", "", "URL of the agent's endpoint for guards and gates.")
	fs.StringVar(&o.Key, "key", "", "Public key that verifies the agent's answers.")
	fs.StringVar(&o.Namespace, "namespace", "", "Namespace of the assignment.")
	fs.StringVar(&o.Name, "name", "", "Name of the assignment.")
	fs.StringVar(&o.UID, "uid", "", "UID of the assignment.")
	fs.Float64Var(&o.TimeFactor, "time-factor", 1, "Factor of all timings of the lease; 1 in production.")
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.ClientOptions.AddFlags(fs)
	fs.StringVar(&o.PodIP, "pod-ip", "", "Address of the Pod; by default that in the environment variable "+render.EnvPodIP+".")
	fs.Int32Var(&o.Port, "port", 0, "Port of the guard, which the kubelet probes.")
	fs.Int32Var(&o.DesktopPort, "desktop-port", 0, "Port of the desktop.")
	fs.DurationVar(&o.StartTimeout, "start-timeout", 5*time.Minute, "How long the desktop may take to open its port.")
}

// Validate returns all errors of the options.
func (o *ClientOptions) Validate() error {
	var errs []error
	for _, f := range []struct{ flag, value string }{{"namespace", o.Namespace}, {"name", o.Name}, {"uid", o.UID}} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("--%s is required", f.flag))
		}
	}
	if err := CheckURL(o.LeaseURL); err != nil {
		errs = append(errs, fmt.Errorf("--lease-url %w", err))
	}
	if _, err := parsePublic(o.Key); err != nil {
		errs = append(errs, fmt.Errorf("--key: %w", err))
	}
	if o.TimeFactor <= 0 || o.TimeFactor > 100 {
		errs = append(errs, fmt.Errorf("--time-factor %v is not between 0 and 100", o.TimeFactor))
	}
	return errors.Join(errs...)
}

// Validate returns all errors of the options.
func (o *Options) Validate() error {
	errs := []error{o.ClientOptions.Validate()}
	if o.PodIP == "" {
		errs = append(errs, errors.New("--pod-ip is required"))
	}
	for flag, port := range map[string]int32{"port": o.Port, "desktop-port": o.DesktopPort} {
		if port < 1 || port > 65535 {
			errs = append(errs, fmt.Errorf("--%s %d is not a port", flag, port))
		}
	}
	if o.Port == o.DesktopPort {
		errs = append(errs, errors.New("--port and --desktop-port must differ"))
	}
	if o.StartTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--start-timeout %s is not positive", o.StartTimeout))
	}
	return errors.Join(errs...)
}

func (o *ClientOptions) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.TimeFactor)
}

// jittered returns a scaled duration ±10%, so that requests are spread.
func (o *ClientOptions) jittered(d time.Duration) time.Duration {
	return max(time.Duration(float64(o.scaled(d))*(0.9+0.2*rand.Float64())), minInterval)
}

// CheckURL returns the error of a --lease-url.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.RawQuery != "" {
		return fmt.Errorf("%q is not http://host:port", text)
	}
	return nil
}
