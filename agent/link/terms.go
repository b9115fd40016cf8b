package link

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/objects"
	"github.com/vdi-fleet/vdi-fleet/proto/conflict"
)

// TermsConfigMap is the ConfigMap with an agent's terms, in its own namespace.
const TermsConfigMap = "vdi-agent-state"

const (
	keyAgentTerm = "agentTerm"
	keyHubTerm   = "highestHubTerm"
	keyHubProof  = "highestHubTermProof"
)

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=configmaps,resourceNames=vdi-agent-state,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=vdi-system,resources=leases,resourceNames=vdi-agent,verbs=get;update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=vdi-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=events,verbs=create

// ConfigMapTerms stores terms in a ConfigMap. It writes at each start of the agent, and for
// each new term of the hub: every 10 s while the hub sends orders to any member.
type ConfigMapTerms struct {
	objects.Store

	mu      sync.Mutex
	highest HubTerm
}

// Begin implements Terms.
func (t *ConfigMapTerms) Begin(ctx context.Context) (agentTerm int64, highest HubTerm, err error) {
	err = t.update(ctx, func(data map[string]string) bool {
		agentTerm, highest = parseTerm(data, keyAgentTerm)+1, HubTerm{parseTerm(data, keyHubTerm), data[keyHubProof]}
		data[keyAgentTerm] = strconv.FormatInt(agentTerm, 10)
		return true
	})
	if err != nil {
		return 0, HubTerm{}, fmt.Errorf("beginning the agent's term: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.highest = highest
	return agentTerm, highest, nil
}

// Observe implements Terms.
func (t *ConfigMapTerms) Observe(ctx context.Context, term HubTerm) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !term.supersedes(t.highest) {
		return nil
	}
	err := t.update(ctx, func(data map[string]string) bool {
		if !term.supersedes(HubTerm{parseTerm(data, keyHubTerm), data[keyHubProof]}) {
			return false
		}
		data[keyHubTerm], data[keyHubProof] = strconv.FormatInt(term.Term, 10), term.Proof
		return true
	})
	if err != nil {
		return fmt.Errorf("storing the hub's term: %w", err)
	}
	t.highest = term
	return nil
}

// supersedes reports whether a term replaces another: it is higher, or the same with another
// proof.
func (t HubTerm) supersedes(other HubTerm) bool {
	return t.Term > other.Term || t.Term == other.Term && t.Proof != "" && t.Proof != other.Proof
}

// parseTerm reads a term. An invalid one counts as none, so that the agent can start.
func parseTerm(data map[string]string, key string) int64 {
	n, err := strconv.ParseInt(data[key], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (t *ConfigMapTerms) update(ctx context.Context, change func(map[string]string) bool) error {
	return conflict.Retry(retry.DefaultBackoff, func() error {
		state := &corev1.ConfigMap{}
		if err := t.Read(ctx, TermsConfigMap, state); err != nil {
			return err
		}
		if state.Data == nil {
			state.Data = map[string]string{}
		}
		if !change(state.Data) {
			return nil
		}
		return t.Write(ctx, TermsConfigMap, state)
	})
}

// raise sets a term as the highest of this process, if it supersedes that, and reports
// whether it did.
func (s *stream) raise(term HubTerm) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !term.supersedes(HubTerm{s.hello.GetHighestHubTerm(), s.hello.GetHighestHubTermProof()}) {
		return false
	}
	s.hello.HighestHubTerm, s.hello.HighestHubTermProof = term.Term, term.Proof
	return true
}

// highest returns the highest term of this process.
func (s *stream) highest() HubTerm {
	s.mu.Lock()
	defer s.mu.Unlock()
	return HubTerm{s.hello.GetHighestHubTerm(), s.hello.GetHighestHubTermProof()}
}

// observeRenewal records the term of a renewal, which grows while the hub sends orders. One
// without a proof is ignored. No renewal waits until the term is stored.
func (s *stream) observeRenewal(term HubTerm) {
	if term.Proof == "" || !s.raise(term) {
		return
	}
	select {
	case s.renewed <- struct{}{}:
	default:
	}
}

// storeTerms stores the terms of renewals for the next process of the agent, and retries.
func (s *stream) storeTerms(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.renewed:
			untilDone(ctx, func() error {
				term := s.highest()
				err := s.member.Terms.Observe(ctx, term)
				if err != nil {
					log.FromContext(ctx).V(1).Info("Storing the hub's term failed, will retry", "term", term.Term, "reason", err.Error())
				}
				return err
			})
		}
	}
}
