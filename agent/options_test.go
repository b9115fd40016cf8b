package agent

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/activity"
	"github.com/vdi-fleet/vdi-fleet/agent/identity"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session"
)

// parse parses flags besides the required ones.
func parse(t *testing.T, args ...string) (Options, error) {
	t.Helper()
	var o Options
	flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	required := []string{"--hub-address=hub:1", "--tls-cert-file=c", "--tls-key-file=k", "--hub-ca-file=a"}
	if err := flags.Parse(append(required, args...)); err != nil {
		return o, err
	}
	return o, o.Validate()
}

func TestFlagsDescribeTheMember(t *testing.T) {
	labels := func(l map[string]string) metav1.LabelSelector { return metav1.LabelSelector{MatchLabels: l} }
	base := func() session.Options {
		return session.Options{
			Network: render.Network{
				GatewayNamespaces: labels(map[string]string{"vdi.kasm.io/gateway": "true"}), AgentNamespace: "vdi-system",
			},
			RetryLimits:     observe.RetryLimits{FailAfter: 5 * time.Minute, Restarts: 5, Endings: 5},
			CleanupDeadline: 2 * time.Minute,
			LostAfter:       5 * time.Minute,
			Activity:        activity.Options{MinInterval: time.Second, MaxInterval: time.Minute, IdleAfter: 5 * time.Minute},
		}
	}
	for _, tc := range []struct {
		name string
		args []string
		want func(*session.Options)
	}{
		{"nothing", nil, func(*session.Options) {}},
		{"a Gateway", []string{"--gateway=gateways/public"}, func(o *session.Options) {
			o.Network.Gateway = &render.GatewayRef{Namespace: "gateways", Name: "public"}
		}},
		{"a listener of it", []string{"--gateway=gateways/public/https"}, func(o *session.Options) {
			o.Network.Gateway = &render.GatewayRef{Namespace: "gateways", Name: "public", Section: "https"}
		}},
		{"namespaces of gateways", []string{"--gateway-namespace-selector=team=edge,tier in (a,b)"}, func(o *session.Options) {
			o.Network.GatewayNamespaces = labels(map[string]string{"team": "edge"})
			o.Network.GatewayNamespaces.MatchExpressions = []metav1.LabelSelectorRequirement{
				{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}}
		}},
		{"a certificate", []string{"--tls-secret=wildcard.example"}, func(o *session.Options) { o.Network.TLSSecretName = "wildcard.example" }},
		{"times", []string{"--fail-after=90s", "--cleanup-deadline=1h"}, func(o *session.Options) {
			o.RetryLimits.FailAfter, o.CleanupDeadline = 90*time.Second, time.Hour
		}},
		{"time as a demonstration has it", []string{"--time-factor=0.1"}, func(o *session.Options) {
			o.Activity = activity.Options{MinInterval: 100 * time.Millisecond, MaxInterval: 6 * time.Second, IdleAfter: 30 * time.Second}
			o.LostAfter = 30 * time.Second
		}},
		{"guards", []string{"--guard-image=agent:1", "--lease-url=http://agent:8082", "--lease-address=127.0.0.1:9000", "--time-factor=2"}, func(o *session.Options) {
			o.Network.LeasePort = 9000
			o.Guard = &render.Guard{Image: "agent:1", LeaseURL: "http://agent:8082", Port: 8079, TimeFactor: 2}
			o.Activity = activity.Options{MinInterval: 2 * time.Second, MaxInterval: 2 * time.Minute, IdleAfter: 10 * time.Minute}
			o.LostAfter = 10 * time.Minute
		}},
		{"the agent's namespace", []string{"--namespace=agents"}, func(o *session.Options) { o.Network.AgentNamespace = "agents" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, err := parse(t, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := o.session()
			if err != nil {
				t.Fatal(err)
			}
			want := base()
			tc.want(&want)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("session options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAgentWithoutCertificateFilesJoinsByItself(t *testing.T) {
	hash := "sha256:" + strings.Repeat("0a", 32)
	o, err := parse(t, "--tls-cert-file=", "--tls-key-file=", "--hub-ca-file=",
		"--member=eu", "--hub-server-name=hub.svc", "--bootstrap-token-file=t", "--hub-ca-hash="+hash)
	if err != nil {
		t.Fatal(err)
	}
	want := identity.Options{
		Namespace: "vdi-system", Member: "eu", HubAddress: "hub:1", HubServerName: "hub.svc",
		TokenFile: "t", CAHashes: []string{hash},
	}
	if diff := cmp.Diff(want, o.identity()); diff != "" || o.externallyIssued() {
		t.Errorf("identity options (-want +got):\n%s", diff)
	}
}

func TestInvalidFlagsAreRefusedByName(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--gateway=public"}, "--gateway"},
		{[]string{"--guard-image=agent:1"}, "--lease-url"},
		{[]string{"--guard-image=agent:1", "--lease-url=agent:8082"}, "--lease-url"},
		{[]string{"--guard-image=agent:1", "--lease-url=http://agent:8082", "--lease-address=agent"}, "--lease-address"},
		{[]string{"--guard-image=agent:1", "--lease-url=http://agent:8082", "--guard-port=0"}, "--guard-port"},
		{[]string{"--lease-url=http://agent:8082"}, "--guard-image"},
		{[]string{"--gateway=/public"}, "--gateway"},
		{[]string{"--gateway=gateways/"}, "--gateway"},
		{[]string{"--gateway=gateways/public/"}, "--gateway"},
		{[]string{"--gateway=gateways/public/https/more"}, "--gateway"},
		{[]string{"--gateway=Gateways/public"}, "--gateway"},
		{[]string{"--gateway-namespace-selector="}, "--gateway-namespace-selector is empty"},
		{[]string{"--gateway-namespace-selector=a in"}, "--gateway-namespace-selector"},
		{[]string{"--tls-secret=Wild Card"}, "--tls-secret"},
		{[]string{"--tls-secret=cert", "--gateway=gateways/public"}, "set one of them"},
		{[]string{"--fail-after=0s"}, "--fail-after"},
		{[]string{"--cleanup-deadline=-1m"}, "--cleanup-deadline"},
		{[]string{"--time-factor=0"}, "--time-factor"},
		{[]string{"--namespace="}, "--namespace"},
		{[]string{"--tls-key-file="}, "--tls-key-file"},
		{[]string{"--hub-ca-hash=sha256:12", "--tls-cert-file=", "--tls-key-file=", "--hub-ca-file="}, "--hub-ca-hash"},
		{[]string{"--bootstrap-token-file=t"}, "does not join"},
	} {
		if _, err := parse(t, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: error %v, want one with %q", tc.args, err, tc.want)
		}
	}
	_, err := parse(t, "--gateway=x", "--fail-after=0s", "--hub-address=")
	for _, flag := range []string{"--gateway", "--fail-after", "--hub-address"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("error %v does not name %s", err, flag)
		}
	}
}
