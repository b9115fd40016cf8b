package harness_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
)

func TestFleet(t *testing.T) {
	takesLong(t)
	ctx := testContext(t)
	root := t.TempDir()
	must(t, fakeRoot(root))
	t.Setenv("VDI_FLEET_ROOT", root)

	// If a member does not become Ready, the steps show how far each of them got.
	var steps []string
	fleet, err := harness.Start(ctx, harness.Options{
		MemberSpecs: harness.DefaultMembers(1, 3),
		Progress:    func(step string) { steps = append(steps, step) },
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(steps, "\n"))
	}
	defer func() { must(t, fleet.Stop()) }()
	member := fleet.Member("eu-west")

	t.Run("shows every cluster in one kubeconfig", func(t *testing.T) {
		out, err := fleet.Hub.ControlPlane.Kubectl(ctx, "--kubeconfig="+fleet.Kubeconfig, "--context=eu-west",
			"get", "nodes", "-o=jsonpath={.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}")
		if err != nil || out != "eu-west-a eu-west-b eu-west-c" {
			t.Errorf("%q, %v", out, err)
		}
		namespace, err := member.ControlPlane.Client.CoreV1().Namespaces().Get(ctx, "desktops", metav1.GetOptions{})
		if err != nil || namespace.Labels[harness.AdmitSessionsLabel] != "true" {
			t.Errorf("%v, %v", namespace.Labels, err)
		}
	})

	t.Run("leads the agent to the hub that took over", func(t *testing.T) {
		first := fleet.Hub.Leader(ctx)
		must(t, first.Kill())
		var second *harness.Replica
		eventually(ctx, t, func(ctx context.Context) error {
			if second = fleet.Hub.Leader(ctx); second == nil {
				return errors.New("there is no leader")
			}
			return nil
		})
		eventually(ctx, t, connectedTo(member, second.LinkAddr))
		must(t, first.Start())
		must(t, first.WaitReady(ctx))
		must(t, member.Agent.Kill())
		eventually(ctx, t, connectedTo(member, ""))
		must(t, member.Agent.Start())
		eventually(ctx, t, connectedTo(member, second.LinkAddr))
		must(t, fleet.WaitMembersReady(ctx))
	})

	t.Run("has certificates that are refused", func(t *testing.T) {
		other, err := pki.NewCA("another")
		must(t, err)
		request := harness.AgentRequest(member.UID)
		for name, issue := range map[string]func() (pki.KeyPair, error){
			"expired":    func() (pki.KeyPair, error) { return fleet.PKI.CA.Issue(request.Expired()) },
			"another CA": func() (pki.KeyPair, error) { return other.Issue(request) },
		} {
			pair, err := issue()
			must(t, err)
			cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
			must(t, err)
			conn, err := tls.Dial("tcp", fleet.Hub.Leader(ctx).LinkAddr,
				&tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true})
			if err == nil { // TLS 1.3 refuses clients after its handshake
				_, err = conn.Read(make([]byte, 1))
			}
			if err == nil || !strings.Contains(err.Error(), "tls:") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// connectedTo checks where the member's agent is connected, "" meaning nowhere.
func connectedTo(member *harness.Member, backend string) func(context.Context) error {
	return func(context.Context) error {
		status, err := member.Proxy.Status()
		if err != nil {
			return err
		}
		if (backend == "") != (status.Connections == 0) || backend != "" && status.Backend != backend {
			return fmt.Errorf("link is %+v", status)
		}
		return nil
	}
}

func TestFleetThatFailsReportsWhyAndLeavesNothing(t *testing.T) {
	takesLong(t)
	root := t.TempDir()
	must(t, fakeRoot(root))
	t.Setenv("VDI_FLEET_ROOT", root)
	dir := t.TempDir()
	_, err := harness.Start(testContext(t), harness.Options{
		MemberSpecs: harness.DefaultMembers(1, 1), Dir: dir, Args: harness.Args{Env: []string{"FAKE_HUB_FAILS=boom"}},
	})
	if err == nil || !strings.Contains(err.Error(), "fake hub fails: boom") {
		t.Error(err)
	}
	must(t, pathGone(dir)(t.Context()))
}

func TestFleetsSideBySide(t *testing.T) {
	takesLong(t)
	ctx := testContext(t)
	fleets := make([]*harness.Fleet, 2)
	var group errgroup.Group
	for i := range fleets {
		group.Go(func() (err error) {
			fleets[i], err = harness.Start(ctx, harness.Options{
				MemberSpecs: harness.DefaultMembers(1, 1), NoFleetProcesses: true,
			})
			return err
		})
	}
	err := group.Wait()
	for _, fleet := range fleets {
		if fleet != nil {
			defer func() { must(t, fleet.Stop()) }()
		}
	}
	must(t, err)

	// Each API server rejects the administrator of the other, though all names are the same.
	config := *fleets[0].Hub.ControlPlane.Config
	config.Host, config.CAData = fleets[1].Hub.ControlPlane.Config.Host, fleets[1].Hub.ControlPlane.Config.CAData
	other, err := kubernetes.NewForConfig(&config)
	must(t, err)
	if _, err := other.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("the other fleet's administrator gets: %v", err)
	}

	must(t, fleets[0].Stop())
	if _, err := os.Stat(fleets[0].Dir); err == nil {
		t.Error("the stopped fleet's directory still exists")
	}
	if i := slices.IndexFunc(fleets[1].Processes(), func(p *harness.Process) bool { return !p.Running() }); i >= 0 {
		t.Errorf("%s ended with the other fleet", fleets[1].Processes()[i].Spec.Name)
	}
	_, err = fleets[1].Members[0].ControlPlane.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(t, err)
}
