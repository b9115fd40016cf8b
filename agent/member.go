package agent

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vdi-fleet/vdi-fleet/agent/activity"
	"github.com/vdi-fleet/vdi-fleet/agent/guard"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session"
)

const (
	// failRestarts is observe.RetryLimits.Restarts.
	failRestarts = 5
	// failEndings is observe.RetryLimits.Endings.
	failEndings = 5
	// lostAfter is session.Options.LostAfter: as long as Kubernetes keeps Pods on a node that
	// does not answer.
	lostAfter = 5 * time.Minute
	// overdueFor is retention.Options.OverdueFor.
	overdueFor = time.Minute
	// unusedFor is retention.Options.UnusedFor.
	unusedFor = 10 * time.Minute
)

// session returns the options of the session reconciler. The error names every invalid flag.
func (o *Options) session() (session.Options, error) {
	gateway, gatewayErr := gatewayOf(o.Gateway)
	namespaces, selectorErr := selectorOf(o.GatewayNamespaceSelector)
	errs := []error{gatewayErr, selectorErr}
	if problems := validation.IsDNS1123Subdomain(o.TLSSecret); o.TLSSecret != "" && problems != nil {
		errs = append(errs, fmt.Errorf("--tls-secret %q is not the name of a Secret: %s", o.TLSSecret, problems[0]))
	}
	if o.TLSSecret != "" && o.Gateway != "" {
		errs = append(errs, errors.New("--tls-secret is for Ingresses, and with --gateway the certificate is the Gateway's: set one of them"))
	}
	for flag, value := range map[string]time.Duration{"fail-after": o.FailAfter, "cleanup-deadline": o.CleanupDeadline} {
		if value < time.Second {
			errs = append(errs, fmt.Errorf("--%s %s is shorter than a second", flag, value))
		}
	}
	guard, leasePort, err := o.guard()
	errs = append(errs, err)
	return session.Options{
		Network: render.Network{
			Gateway: gateway, GatewayNamespaces: namespaces,
			TLSSecretName: o.TLSSecret, AgentNamespace: o.Namespace, LeasePort: leasePort,
		},
		Guard:           guard,
		RetryLimits:     observe.RetryLimits{FailAfter: o.FailAfter, Restarts: failRestarts, Endings: failEndings},
		CleanupDeadline: o.CleanupDeadline,
		LostAfter:       o.scaled(lostAfter),
		Activity:        activity.Options{MinInterval: o.scaled(time.Second), MaxInterval: o.scaled(time.Minute), IdleAfter: o.scaled(observe.IdleAfter)},
	}, errors.Join(errs...)
}

// guard returns the agent's parameters of guards, and the port on which it listens for them,
// or nil and zero without guards.
func (o *Options) guard() (*render.Guard, int32, error) {
	if o.GuardImage == "" {
		if o.LeaseURL != "" {
			return nil, 0, errors.New("--lease-url requires --guard-image")
		}
		return nil, 0, nil
	}
	var errs []error
	if err := guard.CheckURL(o.LeaseURL); err != nil {
		errs = append(errs, fmt.Errorf("--lease-url %w", err))
	}
	_, text, err := net.SplitHostPort(o.LeaseAddress)
	port, portErr := strconv.ParseUint(text, 10, 16)
	if err != nil || portErr != nil || port == 0 {
		errs = append(errs, fmt.Errorf("--lease-address %q is not host:port", o.LeaseAddress))
	}
	if o.GuardPort < 1 || o.GuardPort > 65535 {
		errs = append(errs, fmt.Errorf("--guard-port %d is not a port", o.GuardPort))
	}
	return &render.Guard{
		Image: o.GuardImage, LeaseURL: o.LeaseURL, Port: o.GuardPort, TimeFactor: o.TimeFactor,
	}, int32(port), errors.Join(errs...)
}

// scaled returns a duration times the time factor.
func (o *Options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.TimeFactor)
}

// gatewayOf reads namespace/name[/section], and returns nil for an empty text.
func gatewayOf(text string) (*render.GatewayRef, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 2 && len(parts) != 3 {
		return nil, fmt.Errorf("--gateway %q is not namespace/name or namespace/name/section", text)
	}
	problems := validation.IsDNS1123Label(parts[0])
	for _, name := range parts[1:] {
		problems = append(problems, validation.IsDNS1123Subdomain(name)...)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("--gateway %q is not namespace/name or namespace/name/section: %s", text, problems[0])
	}
	return &render.GatewayRef{Namespace: parts[0], Name: parts[1], Section: strings.Join(parts[2:], "")}, nil
}

// selectorOf reads the selector of gateways' namespaces. One that selects all would open
// every desktop to every Pod of the member.
func selectorOf(text string) (metav1.LabelSelector, error) {
	selector, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		return metav1.LabelSelector{}, fmt.Errorf("--gateway-namespace-selector %q: %w", text, err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return metav1.LabelSelector{}, errors.New("--gateway-namespace-selector is empty, which would admit every namespace: set the labels of the gateway's")
	}
	return *selector, nil
}
