package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// simulated is an agent whose link is the production client, over a member that
// is a map: what it is sent is stored and ready at once. It stands for the load
// of many agents, and for nothing else.
type simulated struct {
	name   string
	client *agentlink.Client
	stop   func()

	mu       sync.Mutex
	held     map[types.UID]*fleetv1.Assignment
	capacity uint64
	terms    []int64
}

// simulate starts the agent of a member that is on the hub.
func (r *run) simulate(name string, uid types.UID) (*simulated, error) {
	files, err := r.fleet.PKI.Agent(name, string(uid))
	if err != nil {
		return nil, err
	}
	s := &simulated{name: name, held: map[types.UID]*fleetv1.Assignment{}, capacity: 1}
	s.client = agentlink.NewClient(agentlink.Options{
		HubAddress: r.wires[r.fleet.Members[0].Name].addr(), HubServerName: "localhost",
		CertFile: files.CertFile, KeyFile: files.KeyFile, HubCAFile: files.CAFile,
		AgentVersion: "simulated", Instance: uuid.NewString(), TimeFactor: r.factor,
	}, agentlink.Member{
		Assignments: s, Orders: s, Capacity: s, Terms: s,
		Fingerprint: func(context.Context) (string, error) { return "simulated-" + name, nil },
		Synced:      func(context.Context) bool { return true },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.client.Start(ctx); err != nil {
			r.say("    simulated agent %s: %v", name, err)
		}
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	r.finally(s.stop)
	return s, nil
}

// simulateMany makes members that take no sessions, with simulated agents.
func (r *run) simulateMany(ctx context.Context, n int) ([]*simulated, error) {
	var all []*simulated
	for i := range n {
		name := fmt.Sprintf("simulated-%03d", i)
		uid, err := r.enlist(ctx, name)
		if err != nil {
			return nil, err
		}
		s, err := r.simulate(name, uid)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// welcomed is by how many leaders of the hub.
func (s *simulated) welcomed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.terms)
}

// List implements agentlink.Assignments.
func (s *simulated) List(context.Context) ([]agentlink.Held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refs []agentlink.Held
	for _, uid := range slices.Sorted(maps.Keys(s.held)) {
		refs = append(refs, agentlink.Held{Ref: refOf(s.held[uid]), Version: s.held[uid].GetSpecHash()})
	}
	return refs, nil
}

func refOf(a *fleetv1.Assignment) agentlink.Ref {
	return agentlink.Ref{UID: types.UID(a.GetSessionUid()), NamespacedName: types.NamespacedName{Namespace: a.GetNamespace(), Name: a.GetName()}}
}

// Render implements agentlink.Assignments.
func (s *simulated) Render(r agentlink.Ref) *fleetv1.AssignmentReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.held[r.UID]
	if a == nil {
		return nil
	}
	report := &fleetv1.AssignmentReport{
		SessionUid: a.GetSessionUid(), Namespace: a.GetNamespace(), Name: a.GetName(), Epoch: a.GetEpoch(), SpecHash: a.GetSpecHash(),
		SessionNamespace: a.GetSessionNamespace(), SessionName: a.GetSessionName(),
		Status: &fleetv1.AssignmentStatus{ObservedGeneration: 1, State: string(v1alpha1.AssignmentActive)},
	}
	for _, condition := range []string{v1alpha1.ConditionHomeReady, v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady} {
		report.Status.Conditions = append(report.Status.Conditions, &fleetv1.Condition{
			Type: condition, Status: string(metav1.ConditionTrue), Reason: "Simulated", ObservedGeneration: 1,
			LastTransitionTime: timestamppb.New(metav1.Now().Time),
		})
	}
	return report
}

// Put implements agentlink.Orders.
func (s *simulated) Put(order *fleetv1.Order) {
	answer := &fleetv1.OrderResult{Code: fleetv1.ResultCode_RESULT_CODE_STORED}
	var ref agentlink.Ref
	s.mu.Lock()
	if w := order.GetWithdraw(); w != nil {
		answer.SessionUid, answer.Namespace, answer.Name, answer.Epoch = w.GetSessionUid(), w.GetNamespace(), w.GetName(), w.GetUpToEpoch()
		answer.Code = fleetv1.ResultCode_RESULT_CODE_STOPPED
		ref = agentlink.Ref{UID: types.UID(w.GetSessionUid()), NamespacedName: types.NamespacedName{Namespace: w.GetNamespace(), Name: w.GetName()}}
		delete(s.held, ref.UID)
	} else {
		a := order.GetAssign()
		answer.SessionUid, answer.Namespace, answer.Name, answer.Epoch = a.GetSessionUid(), a.GetNamespace(), a.GetName(), a.GetEpoch()
		answer.SpecHash, answer.CountedFromCapacity = a.GetSpecHash(), s.capacity
		ref = refOf(a)
		s.held[ref.UID] = a
	}
	s.mu.Unlock()
	s.client.Mark(ref)
	s.client.Add(answer)
}

// Report implements agentlink.Capacity: there is no room.
func (s *simulated) Report() *fleetv1.CapacityReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &fleetv1.CapacityReport{Sequence: s.capacity, Assignments: int32(len(s.held)), AdmittedNamespaces: []string{namespace}}
}

// NextSequence implements agentlink.Capacity.
func (s *simulated) NextSequence() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity++
	return s.capacity
}

// SetTemplates implements agentlink.Capacity.
func (s *simulated) SetTemplates(*fleetv1.TemplateSet) {}

// Begin implements agentlink.Terms.
func (s *simulated) Begin(context.Context) (agentTerm, highestHubTerm int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.terms); n > 0 {
		highestHubTerm = s.terms[n-1]
	}
	return 1, highestHubTerm, nil
}

// Observe implements agentlink.Terms.
func (s *simulated) Observe(_ context.Context, term int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.terms); n == 0 || s.terms[n-1] != term {
		s.terms = append(s.terms, term)
	}
	return nil
}
