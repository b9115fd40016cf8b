package watch

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/observer"
)

// RunLog follows the container logs of the simulated kubelets, which show what ran whatever hub,
// agents and API servers hold. An overlap that no mode allows is a violation of G1.
type RunLog struct {
	follower *observer.Follower
	watch    *Watcher
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// FollowLogs follows the logs until Close.
func FollowLogs(logs []string, watch *Watcher) *RunLog {
	ctx, stop := context.WithCancel(context.Background())
	k := &RunLog{follower: observer.Follow(logs...), watch: watch, stop: stop}
	k.done.Go(func() { k.follower.Watch(ctx, interval, k.mayRunTwice, k.report) })
	return k
}

// Close stops following the logs.
func (k *RunLog) Close() {
	k.stop()
	k.done.Wait()
}

// mayRunTwice reports whether the session is of mode Restart and was rescheduled while its member
// was away.
func (k *RunLog) mayRunTwice(session string) (may bool) {
	k.watch.With(func(c *checker.Checker, _ time.Time) { may = c.MayRunTwice(types.UID(session)) })
	return may
}

// report records an overlap as a violation.
func (k *RunLog) report(o observer.Overlap) {
	k.watch.With(func(c *checker.Checker, now time.Time) {
		key := fmt.Sprintf("ran/%s/%s/%s", o.Session, o.First.PodUID, o.Second.PodUID)
		c.Report(now, 1, types.UID(o.Session), key, "by the kubelets' logs, %s", o)
	})
}

// Counts returns what ran since a time: desktops that were started, and sessions that ran in two
// members at once, as their mode allows. It returns an error if the logs can't be read.
func (k *RunLog) Counts(since time.Time) (desktops, twice int, err error) {
	history, errs := k.follower.History()
	for _, e := range errs {
		return 0, 0, fmt.Errorf("following the kubelets' logs: %w", e)
	}
	for _, o := range history.Overlaps(k.mayRunTwice) {
		k.report(o) // by now every run that ended has its end
	}
	for _, run := range history.Runs {
		if run.Container == observer.Desktop && !run.FromWall.Before(since) {
			desktops++
		}
	}
	for _, o := range history.Overlaps(nil) {
		if !o.Second.FromWall.Before(since) {
			twice++
		}
	}
	return desktops, twice, nil
}

// Runs returns the runs of a session's desktop in their order.
func (k *RunLog) Runs(session types.UID) []DesktopRun {
	history, _ := k.follower.History()
	var all []DesktopRun
	for _, run := range history.Of(string(session)) {
		epoch, _ := strconv.ParseInt(run.Epoch, 10, 64)
		l := DesktopRun{Member: run.Member, pod: run.Pod, epoch: epoch, Start: run.FromWall}
		if !run.Open {
			l.End = run.ToWall
		}
		all = append(all, l)
	}
	return all
}

// TimeFormat is the format of printed times.
const TimeFormat = "15:04:05.000"

// DesktopRun is one run of a desktop according to its kubelet's log.
type DesktopRun struct {
	Member, pod string
	epoch       int64
	// End is zero while it runs.
	Start, End time.Time
}

// String returns the run on one line.
func (l DesktopRun) String() string {
	end := "now"
	if !l.End.IsZero() {
		end = l.End.Format(TimeFormat)
	}
	return fmt.Sprintf("%s (epoch %d, Pod %s) %s to %s", l.Member, l.epoch, l.pod, l.Start.Format(TimeFormat), end)
}
