package scenarios

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// A storm changes whether desktops are ready at stormRate a second, for stormTime. Each change is
// a new status of an assignment.
const (
	stormRate = 1000
	stormTime = 10 * time.Second
)

// stormWriters is the number of writers for each member's API server. Each has its own Pods, so
// that none waits for another's write.
const stormWriters = 8

// statusStorm changes the readiness of all members' Pods, at 1,000 a second if the API servers can
// take that; it records the rate that was reached. simulatedStorm shows what link and hub do at
// 1,000 a second.
func statusStorm(ctx context.Context, r *runner.Run) error {
	if err := r.Pause(ctx, 20*time.Second); err != nil {
		return err
	}
	before, err := hubCounts(ctx, r)
	if err != nil {
		return err
	}
	began := time.Now()
	storm := &podStorm{until: began.Add(stormTime), limit: rate.NewLimiter(stormRate, stormRate/10)}
	group, gctx := errgroup.WithContext(ctx)
	for _, m := range r.Fleet.Members {
		if err := storm.over(gctx, group, m); err != nil {
			return err
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(began)
	r.Record("%d changes of %d Pods' readiness by %d writers in %d members: %.0f a second of the %d that were tried",
		storm.changed.Load(), storm.pods, stormWriters*len(r.Fleet.Members), len(r.Fleet.Members), float64(storm.changed.Load())/took.Seconds(), stormRate)
	wrote, err := writesByUser(r, began)
	if err != nil {
		return err
	}
	r.Record("what that cost all API servers together, events included: %s", wrote)
	return recordCounts(ctx, r, before, int(storm.changed.Load()))
}

// podStorm is a storm over real Pods.
type podStorm struct {
	until   time.Time
	limit   *rate.Limiter
	changed atomic.Int64
	pods    int
}

// over starts the writers of a member.
func (s *podStorm) over(ctx context.Context, group *errgroup.Group, m *harness.Member) error {
	config := rest.CopyConfig(m.ControlPlane.Config)
	config.QPS = -1 // the storm has a limit of its own
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Pods(workload.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return fmt.Errorf("no Pods in %s to change: %w", m.Name, err)
	}
	shares := make([][]string, stormWriters)
	for i := range list.Items {
		shares[i%stormWriters] = append(shares[i%stormWriters], list.Items[i].Name)
	}
	s.pods += len(list.Items)
	for _, names := range shares {
		if len(names) > 0 {
			group.Go(func() error { return s.write(ctx, client, names) })
		}
	}
	return nil
}

// write changes its Pods in turn. In the end all are ready, as their simulated kubelet reports
// them.
func (s *podStorm) write(ctx context.Context, client kubernetes.Interface, names []string) error {
	for n := 0; time.Now().Before(s.until); n++ {
		if err := s.limit.Wait(ctx); err != nil {
			return err
		}
		ready := corev1.ConditionTrue
		if n/len(names)%2 == 0 {
			ready = corev1.ConditionFalse
		}
		there, err := setReady(ctx, client, names[n%len(names)], ready)
		if err != nil {
			return err
		}
		if there {
			s.changed.Add(1)
		} else if err := stage.Sleep(ctx, time.Second/stormRate); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := setReady(ctx, client, name, corev1.ConditionTrue); err != nil {
			return err
		}
	}
	return nil
}

// setReady sets a Pod's readiness. It reports whether the Pod exists: its session may have ended.
func setReady(ctx context.Context, client kubernetes.Interface, pod string, ready corev1.ConditionStatus) (there bool, err error) {
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)
	_, err = client.CoreV1().Pods(workload.Namespace).Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// stormMembers is the number of simulated members of a storm, and stormSessions the number of
// sessions of each: a session changes ten times a second, slower than the link debounces, so that
// the agents report each change.
const (
	stormMembers  = 10
	stormSessions = 10
)

// simulatedStorm changes 1,000 statuses a second in simulated members: the production link and the
// real hub carry more than API servers on two cores could make.
func simulatedStorm(ctx context.Context, r *runner.Run) error {
	members, err := runner.SimulateMembers(ctx, r, "storm", stormMembers)
	if err != nil {
		return err
	}
	var sessions []*v1alpha1.VDISession
	for i := range stormMembers * stormSessions {
		s, err := runner.CreateSimulatedSession(ctx, r, fmt.Sprintf("storm-%03d", i), members[i%stormMembers])
		if err != nil {
			return err
		}
		sessions = append(sessions, s)
	}
	if err := runner.AwaitAllRunning(ctx, r, sessions); err != nil {
		return err
	}
	before, err := hubCounts(ctx, r)
	if err != nil {
		return err
	}
	changed, began := 0, time.Now()
	change := func(ready metav1.ConditionStatus) error {
		at := changed % len(sessions)
		if !members[at%stormMembers].SetReady(sessions[at].UID, ready) {
			return fmt.Errorf("%s holds %s no more", members[at%stormMembers].Name, sessions[at].Name)
		}
		changed++
		return nil
	}
	for changed < int(stormRate*stormTime.Seconds()) {
		ready := metav1.ConditionTrue
		if changed/len(sessions)%2 == 0 {
			ready = metav1.ConditionFalse
		}
		if err := change(ready); err != nil {
			return err
		}
		if ahead := time.Duration(changed)*time.Second/stormRate - time.Since(began); ahead > 0 {
			if err := stage.Sleep(ctx, ahead); err != nil {
				return err
			}
		}
	}
	reached := float64(changed) / time.Since(began).Seconds()
	r.Record("%d changes of %d sessions' status in %d simulated members (production link, in-memory store): %.0f a second", changed, len(sessions), len(members), reached)
	if reached < 0.9*stormRate {
		return fmt.Errorf("the storm was of %.0f changes a second only, not of %d: the machine is too busy for it", reached, stormRate)
	}
	return recordCounts(ctx, r, before, changed)
}
