package simulated

import (
	"context"
	"sync"

	"github.com/google/uuid"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Agent is an agent whose link is the production client, over a Member in memory: an assignment is
// stored and ready at once.
type Agent struct {
	*Member
	client *agentlink.Client
	Stop   func()
}

// Start starts the agent of a simulated member.
func Start(m *Member, hubAddress string, files harness.LinkFiles, fingerprint string, factor float64, logf func(string, ...any)) *Agent {
	s := &Agent{Member: m}
	s.client = agentlink.NewClient(agentlink.Options{
		HubAddress: hubAddress, HubServerName: "localhost",
		Credentials:  agentlink.Files{CertFile: files.CertFile, KeyFile: files.KeyFile, HubCAFile: files.CAFile},
		AgentVersion: "simulated", Instance: uuid.NewString(), TimeFactor: factor, Leading: func() bool { return true },
	}, agentlink.Member{
		Assignments: m, Orders: m, Capacity: m, Terms: m, Lease: m,
		Fingerprint: func(context.Context) (string, error) { return fingerprint, nil },
		Synced:      func(context.Context) bool { return true },
	})
	m.link = s.client
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.client.Start(ctx); err != nil {
			logf("    simulated agent %s: %v", m.Name, err)
		}
	}()
	s.Stop = sync.OnceFunc(func() {
		cancel()
		m.ResumeReading()
		<-done
	})
	return s
}
