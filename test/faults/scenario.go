package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// scenario is one way to do harm.
type scenario struct {
	name string
	// size is how many sessions the workload keeps; 0: 24.
	size int
	// short: part of `make test`.
	short bool
	// alone: it breaks more than the runner can heal, so it has a fleet of its
	// own and no place in a soak.
	alone bool
	// kind of fleet that it needs.
	kind kind
	// slack is what the scenario's harm costs besides, and no factor scales.
	slack time.Duration
	// ends: it ends processes of hub or agents.
	ends bool
	do   func(context.Context, *run) error
}

// kind is what a fleet has besides: only scenarios of one kind share one.
type kind struct {
	// enrol: its agents joined with a token, and rotate certificates that the hub
	// issues. Such a scenario must be alone.
	enrol bool
	// kubelets: its nodes' kubelets are simulated one by one, desktops have guards,
	// and what runs is told by the kubelets' logs. Its time runs by failoverPace
	// faster.
	kubelets bool
}

// scenarios in the order in which they run.
func scenarios() []scenario {
	var all []scenario
	for _, group := range [][]scenario{
		kills(), stops(), forces(), networks(), apiServers(), identities(), liars(), attacks(), agentAttacks(), clocks(), hiccups(), namespaces(), loads(), many(), restores(), failovers(),
	} {
		all = append(all, group...)
	}
	return all
}

// injection is a harm that was done, and when.
type injection struct {
	After time.Duration `json:"after"`
	What  string        `json:"what"`
}

func (i injection) String() string { return fmt.Sprintf("+%.1fs %s", i.After.Seconds(), i.What) }

// run is a scenario at work.
type run struct {
	*stage
	scenario scenario
	random   *rand.Rand
	work     *workload
	began    time.Time
	// injected is appended to by whoever does harm, one at a time.
	mu       sync.Mutex
	injected []injection
	// after is undone when the scenario is over, last when it has been judged.
	after, last []func()
}

// harm notes what is being done.
func (r *run) harm(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := injection{After: time.Since(r.began), What: fmt.Sprintf(format, args...)}
	r.injected = append(r.injected, i)
	r.say("    %s", i)
}

// finally is called when the scenario is over, however it ends.
func (r *run) finally(f func()) { r.after = append(r.after, f) }

// atLast is called when what the scenario has left was judged and deleted, the
// last one first.
func (r *run) atLast(f func()) { r.last = append([]func(){f}, r.last...) }

// pause waits for a time of production, as this fleet has it.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	return sleep(ctx, r.scaled(d))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// moment waits for a random part of a time of production.
func (r *run) moment(ctx context.Context, most time.Duration) error {
	return r.pause(ctx, time.Duration(r.random.Int64N(int64(most))))
}

// member draws one.
func (r *run) member() *harness.Member {
	return r.fleet.Members[r.random.IntN(len(r.fleet.Members))]
}

// leader waits until a replica of the hub leads.
func (r *run) leader(ctx context.Context) (*harness.Replica, error) {
	var leader *harness.Replica
	err := poll(ctx, r.scaled(time.Minute)+allowance, func(ctx context.Context) error {
		if leader = r.fleet.Hub.Leader(ctx); leader == nil {
			return fmt.Errorf("no replica of the hub leads")
		}
		return nil
	})
	return leader, err
}

// killLeader kills whoever leads, and lets it come back.
func (r *run) killLeader(ctx context.Context, when string) error {
	leader, err := r.leader(ctx)
	if err != nil {
		return err
	}
	r.harm("kill -9 %s (leader) %s", leader.Spec.Name, when)
	return leader.Kill()
}

// away notes that a member is taken from the hub, before it is.
func (r *run) away(member string) {
	r.watch.heard(func(c *checker, now time.Time) { c.took(now, member) })
}

// weather changes what a member's wire does.
func (r *run) weather(member string, now weather, what string) {
	r.harm("%s: %s", member, what)
	if now.CutToHub || now.CutToAgent {
		r.away(member)
	}
	r.wires[member].set(now)
}

// heal ends every harm that the stage knows of.
func (r *run) heal(ctx context.Context) error {
	for _, undo := range r.after {
		undo()
	}
	r.after = nil
	for _, w := range r.allWires() {
		w.set(weather{})
	}
	var errs []string
	for m := range maps.Clone(r.off) {
		if err := r.powerOn(ctx, m); err != nil {
			errs = append(errs, err.Error())
		}
	}
	for _, p := range r.fleet.Processes() {
		if err := p.Resume(); err != nil {
			errs = append(errs, err.Error())
		}
	}
	r.supervisor.releaseAll()
	for m := range r.buried {
		r.supervise(m, false)
	}
	for _, cp := range r.controlPlanes() {
		if err := revive(ctx, cp); err != nil {
			errs = append(errs, err.Error())
		}
	}
	if errs != nil {
		return fmt.Errorf("healing: %s", strings.Join(errs, "; "))
	}
	return nil
}

func (s *stage) controlPlanes() []*harness.ControlPlane {
	all := []*harness.ControlPlane{s.fleet.Hub.ControlPlane}
	for _, m := range s.fleet.Members {
		if !s.buried[m] {
			all = append(all, m.ControlPlane)
		}
	}
	return all
}

// revive starts what a scenario left dead of a control plane.
func revive(ctx context.Context, cp *harness.ControlPlane) error {
	for _, p := range []*harness.Process{cp.Etcd, cp.APIServer} {
		if !p.Running() {
			if err := p.Start(); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return cp.WaitAPI(ctx)
}
