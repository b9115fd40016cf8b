package hub

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func parse(t *testing.T, args ...string) Options {
	t.Helper()
	var o Options
	flags := pflag.NewFlagSet("hub", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(append([]string{"--session-namespaces=desktops"}, args...)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestTheHubIssuesCertificatesUnlessFilesAreConfigured(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		issues  bool
		message string
	}{
		"no files":        {issues: true},
		"all files":       {args: []string{"--tls-cert-file=a", "--tls-key-file=b", "--client-ca-file=c"}},
		"one file":        {args: []string{"--client-ca-file=c"}, message: "--tls-cert-file is required\n--tls-key-file is required"},
		"names":           {args: []string{"--link-dns-name=hub.example.com", "--link-dns-name=10.0.0.1"}, issues: true},
		"no name":         {args: []string{"--link-dns-name=hub:8443"}, issues: true, message: `--link-dns-name "hub:8443"`},
		"a wildcard name": {args: []string{"--link-dns-name=*.example.com"}, issues: true, message: "--link-dns-name"},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, test.args...)
			if got := o.issuesCertificates(); got != test.issues {
				t.Errorf("it issues: %v", got)
			}
			err := o.Validate()
			if (err != nil) != (test.message != "") || err != nil && !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNamesOfTheHubsCertificate(t *testing.T) {
	for want, args := range map[string][]string{
		"vdi-hub.vdi-system.svc,localhost":                         nil,
		"vdi-hub.other.svc,localhost":                              {"--namespace=other"},
		"vdi-hub.vdi-system.svc,localhost,hub.example.com,fd00::1": {"--link-dns-name=hub.example.com", "--link-dns-name=fd00::1"},
	} {
		o := parse(t, args...)
		if got := o.linkNames(); !slices.Equal(got, strings.Split(want, ",")) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func TestTimingsOfFailoverMustFitTogether(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		message string
	}{
		"as they are":              {},
		"scaled":                   {args: []string{"--time-factor=0.05"}},
		"a longer lease":           {args: []string{"--lease=6m"}, message: "a Fence session might run twice: regain is 5m0s, and with a lease of 6m0s it must be at least 7m51.395s; raise it"},
		"and a longer wait":        {args: []string{"--lease=6m", "--regain=8m"}},
		"a wait that is too short": {args: []string{"--regain=4m"}, message: "raise it, or make the lease shorter"},
		"a lease that is over before the member is lost": {args: []string{"--lease=40s"}, message: "the lease (40s) must be longer than unreachable (40s)"},
		"at once":         {args: []string{"--failover-after=0s"}},
		"before its time": {args: []string{"--failover-after=-1s"}, message: "after is -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, test.args...)
			err := o.Validate()
			if (err != nil) != (test.message != "") || err != nil && !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSessionNamespacesAreConfigured(t *testing.T) {
	for name, test := range map[string]struct {
		o       SessionOptions
		message []string
	}{
		"neither":         {message: []string{"--session-namespaces", "--all-namespaces", "every Secret"}},
		"some namespaces": {o: SessionOptions{SessionNamespaces: []string{"desktops"}}},
		"all namespaces":  {o: SessionOptions{AllNamespaces: true}},
		"both":            {o: SessionOptions{AllNamespaces: true, SessionNamespaces: []string{"desktops"}}, message: []string{"exclude each other"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t)
			o.SessionOptions = test.o
			err := o.Validate()
			if (err != nil) != (len(test.message) > 0) {
				t.Fatalf("got %v", err)
			}
			for _, flag := range test.message {
				if !strings.Contains(err.Error(), flag) {
					t.Errorf("%q does not name %s", err, flag)
				}
			}
		})
	}
}
