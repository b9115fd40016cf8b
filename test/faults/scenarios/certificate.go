package scenarios

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// identities returns the scenarios that break how hub and agents authenticate.
func identities() []runner.Scenario {
	return []runner.Scenario{
		{Name: "certificate-expires", EndsProcesses: true, Do: certificateExpires},
		{Name: "cloned-credentials", EndsProcesses: true, Do: clonedCredentials},
		{Name: "rotation-answer-lost", Size: 12, Alone: true, Kind: stage.Kind{Enroll: true}, Do: rotationAnswerLost},
	}
}

// shortLived is the validity of the certificate that expires while it is in use.
const shortLived = 12 * time.Second

// certificateExpires makes an agent's certificate expire while it is connected. The stream must
// end then, and a new certificate in the same files must restore it.
func certificateExpires(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	good := func() {
		if _, err := r.Fleet.PKI.Agent(m.Name, m.UID); err != nil {
			r.Logf("    issuing a certificate: %v", err)
		}
	}
	r.Cleanup(good)
	request := harness.AgentRequest(m.UID)
	request.NotBefore, request.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(shortLived)
	if _, err := r.Fleet.PKI.Write("agent-"+m.Name, r.Fleet.PKI.CA, request); err != nil {
		return err
	}
	r.Record("%s has a certificate for %s", m.Agent.Spec.Name, shortLived)
	if err := runner.KillAgents(m); err != nil {
		return err
	}
	if err := runner.AwaitReadyReason(ctx, r, m.Name, v1alpha1.ReasonConnected, true); err != nil {
		return err
	}
	if err := stage.Sleep(ctx, time.Until(request.NotAfter)); err != nil {
		return err
	}
	r.Record("it has expired")
	if err := runner.AwaitReadyReason(ctx, r, m.Name, v1alpha1.ReasonConnected, false); err != nil {
		return fmt.Errorf("the stream outlives its certificate: %w", err)
	}
	r.Record("%s has a good one", m.Agent.Spec.Name)
	good()
	return nil
}

// clonedCredentials runs a second agent with the same certificate. The first one stays connected;
// when it ends, the other may take its place.
func clonedCredentials(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	if err := runner.AwaitStable(ctx, r, m.Name); err != nil {
		return err
	}
	spec := m.Agent.Spec
	// The clone is no replica of the agent, and takes part in no leader election.
	spec.Name, spec.Args = m.Name+"-clone", append(slices.Clone(spec.Args), "--leader-elect=false")
	for i, arg := range spec.Args {
		for _, flag := range []string{"--metrics-bind-address=", "--health-probe-bind-address="} {
			if strings.HasPrefix(arg, flag) {
				spec.Args[i] = flag + "0"
			}
		}
	}
	clone := harness.NewProcess(spec)
	if err := clone.Start(); err != nil {
		return err
	}
	r.Cleanup(func() { _ = clone.Kill() })
	r.Record("a second agent with the credentials of %s", m.Agent.Spec.Name)
	began := time.Now()
	for time.Since(began) < r.Scaled(time.Minute) {
		reason, err := runner.ReadyReason(ctx, r, m.Name)
		if err != nil {
			return err
		}
		if reason != v1alpha1.ReasonConnected {
			return fmt.Errorf("with two agents of one identity the hub shows %s as %s", m.Name, reason)
		}
		if err := r.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
	r.Record("kill -9 %s: the clone may take its place", m.Agent.Spec.Name)
	if err := runner.KillAgents(m); err != nil {
		return err
	}
	if err := r.Pause(ctx, 30*time.Second); err != nil {
		return err
	}
	r.Record("kill -9 the clone")
	return clone.Kill()
}
