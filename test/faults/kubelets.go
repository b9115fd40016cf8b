package faults

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/test/observer"
)

// kubelets is what the logs of the simulated kubelets say to an observer that knows
// nothing of hub and agents. It follows them from first to last, and an overlap that
// no mode allows is a violation of promise 1, whatever any API server holds.
type kubelets struct {
	follower *observer.Follower
	watch    *watcher
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// observe follows the logs until close.
func observe(logs []string, watch *watcher) *kubelets {
	ctx, stop := context.WithCancel(context.Background())
	k := &kubelets{follower: observer.Follow(logs...), watch: watch, stop: stop}
	k.done.Go(func() { k.follower.Watch(ctx, lookEvery, k.mayRunTwice, k.twice) })
	return k
}

func (k *kubelets) close() {
	k.stop()
	k.done.Wait()
}

// mayRunTwice: the session is of mode Restart, and was rescheduled while its member
// was away.
func (k *kubelets) mayRunTwice(session string) (may bool) {
	k.watch.heard(func(c *checker, _ time.Time) { may = c.twice[types.UID(session)] })
	return may
}

// twice notes an overlap.
func (k *kubelets) twice(o observer.Overlap) {
	k.watch.heard(func(c *checker, now time.Time) {
		key := fmt.Sprintf("ran/%s/%s/%s", o.Session, o.First.PodUID, o.Second.PodUID)
		c.breach(now, 1, types.UID(o.Session), key, "by the kubelets' logs, %s", o)
	})
}

// tally of what ran since a time: desktops that were started, and sessions that ran
// in two members at once, as their mode allows. The error is of logs that can't be
// read.
func (k *kubelets) tally(since time.Time) (desktops, twice int, err error) {
	history, errs := k.follower.History()
	for _, e := range errs {
		return 0, 0, fmt.Errorf("following the kubelets' logs: %w", e)
	}
	for _, o := range history.Overlaps(k.mayRunTwice) {
		k.twice(o) // by now all that had an end has one
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

// lives of a session's desktop, in their order.
func (k *kubelets) lives(session types.UID) []life {
	history, _ := k.follower.History()
	var all []life
	for _, run := range history.Of(string(session)) {
		epoch, _ := strconv.ParseInt(run.Epoch, 10, 64)
		l := life{member: run.Member, pod: run.Pod, epoch: epoch, start: run.FromWall}
		if !run.Open {
			l.end = run.ToWall
		}
		all = append(all, l)
	}
	return all
}
