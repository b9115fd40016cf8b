package faults

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// assignmentGone: the member has it no more. Promise 4.
func (c *checker) assignmentGone(now time.Time, f assignmentFact) {
	c.heard(now, f.Session, f.Cluster+" holds no more", f)
	if before, held := c.held[f.Cluster][f.Session]; held {
		f.Epoch = max(f.Epoch, before.Epoch)
	}
	delete(c.held[f.Cluster], f.Session)
	word := c.wordOf(f.Session, f.Cluster, f.Epoch)
	c.doubt(now, 4, fmt.Sprintf("assignment/%s/%s/%d", f.Cluster, f.Session, f.Epoch), &doubt{
		about: f.Session, watched: []string{hubName}, patience: watchLag,
		text: fmt.Sprintf("assignment %s: epoch %d is gone from %s, and the hub has no reason for it", f.Name, f.Epoch, f.Cluster),
		still: func() bool {
			word.note()
			k := c.sessions[f.Session]
			return k != nil && !c.released(k, f.Cluster, f.Epoch)
		},
		proof: word.missing,
	})
}

// word is what the hub itself says of an epoch in a member. Its watch may be late
// by more than any patience: while an API server comes up it forbids everything,
// and an informer then waits for half a minute.
type word struct {
	c       *checker
	session types.UID
	cluster string
	epoch   int64
	// lost: the hub was restored from a time before the session, so that its absence
	// is no word.
	lost atomic.Bool
}

func (c *checker) wordOf(session types.UID, cluster string, epoch int64) *word {
	return &word{c: c, session: session, cluster: cluster, epoch: epoch}
}

// note is called where the checker may be read.
func (w *word) note() {
	k := w.c.sessions[w.session]
	w.lost.Store(k == nil || k.lost)
}

// missing asks the hub whether it has no cause why this epoch is to be in this
// member no more.
func (w *word) missing(ctx context.Context, o oracle) (bool, error) {
	if w.lost.Load() {
		return true, nil
	}
	s, err := o.session(ctx, "", w.session)
	if err != nil || s == nil {
		return false, err // none: it was deleted while nobody listened
	}
	return !w.c.released(&known{sessionFact: *s}, w.cluster, w.epoch), nil
}

// stays asks the hub whether the session is neither deleted nor being deleted.
func (w *word) stays(ctx context.Context, o oracle) (bool, error) {
	if w.lost.Load() {
		return true, nil
	}
	s, err := o.session(ctx, "", w.session)
	return s != nil && !s.Deleting, err
}

// released: the hub has a durable cause why this epoch is to be in this member
// no more.
func (c *checker) released(k *known, cluster string, epoch int64) bool {
	return !k.lost && (k.Deleting || k.gone || k.Epoch > epoch || k.Cluster != cluster || k.Releasing[cluster] >= epoch)
}

// pod is told of each state of a session's Pod. Promise 1.
func (c *checker) pod(now time.Time, f podFact) {
	c.heard(now, f.Session, f.Cluster+" has", f)
	seen, before := c.pods[f.UID]
	if !before {
		seen.since = now
	}
	f.Runs, f.Ended = f.Runs || seen.Runs, f.Ended || seen.Ended
	seen.podFact = f
	c.pods[f.UID] = seen
	if f.Ended || f.Stopped || c.logged {
		return
	}
	for _, other := range c.pods {
		if other.Session == f.Session && other.Cluster != f.Cluster && !other.Ended && !other.Stopped && !c.mayBeTwo(f.Session, f.Cluster, other.Cluster) {
			c.two(now, f, other)
		}
	}
}

// two: two members were seen to have a Pod of a session. It is proven if the
// one that was seen first is still there: so it was all the time.
func (c *checker) two(now time.Time, a podFact, other seenPod) {
	first, second := other.podFact, a
	if c.pods[a.UID].since.Before(other.since) {
		first, second = second, first
	}
	clusters := []string{first.Cluster, second.Cluster}
	slices.Sort(clusters)
	c.doubt(now, 1, fmt.Sprintf("two/%s/%s/%s", first.Session, first.UID, second.UID), &doubt{
		about: first.Session,
		text: fmt.Sprintf("session %s: Pod %s runs in %s (epoch %d) and in %s (epoch %d) at the same time",
			first.Session, first.Name, first.Cluster, first.Epoch, second.Cluster, second.Epoch),
		still: func() bool { return !c.mayBeTwo(first.Session, clusters[0], clusters[1]) },
		proof: func(ctx context.Context, o oracle) (bool, error) {
			now, err := o.pod(ctx, first)
			return err == nil && now != nil && !now.Ended && !now.Stopped, err
		},
	})
}

// mayBeTwo: a Restart session whose member is away may run a second time.
func (c *checker) mayBeTwo(session types.UID, clusters ...string) bool {
	away, restart := false, false
	for _, cluster := range clusters {
		away = away || !c.away[cluster].IsZero()
		restart = restart || c.held[cluster][session].Mode == "Restart"
	}
	return away && restart
}

// podGone: the member has it no more. Promise 4.
func (c *checker) podGone(now time.Time, f podFact) {
	c.heard(now, f.Session, f.Cluster+" has no more", f)
	seen, before := c.pods[f.UID]
	delete(c.pods, f.UID)
	if !before || f.Ended || seen.Ended || c.excused[f.UID] {
		return
	}
	word := c.wordOf(f.Session, f.Cluster, f.Epoch)
	c.doubt(now, 4, "pod/"+string(f.UID), &doubt{
		about: f.Session, watched: []string{hubName, f.Cluster}, patience: watchLag,
		text: fmt.Sprintf("Pod %s of epoch %d, attempt %d, is gone from %s, and neither side has a reason for it", f.Name, f.Epoch, f.Attempt, f.Cluster),
		still: func() bool {
			word.note()
			return !c.mayStop(seen)
		},
		proof: func(ctx context.Context, o oracle) (bool, error) {
			if missing, err := word.missing(ctx, o); err != nil || !missing {
				return false, err
			}
			return o.ended(seen.podFact, seen.since, now)
		},
	})
}

// mayStop: somebody asked for the Pod's end, durably. One that has not started
// yet makes way for what the session's user has edited.
func (c *checker) mayStop(p seenPod) bool {
	k := c.sessions[p.Session]
	if k == nil || k.lost {
		// Nobody can have asked for the end of what the hub does not know.
		return false
	}
	held, there := c.held[p.Cluster][p.Session]
	since := p.since.Add(-justBefore)
	return c.released(k, p.Cluster, p.Epoch) || !k.rested.Before(since) || !p.Runs && !k.edited.Before(since) ||
		k.Attempt > p.Attempt || there && (held.Deleting || held.Epoch > p.Epoch || held.Attempt > p.Attempt)
}

// homeGone: a VDIHome, or a claim, is there no more. Promise 4.
func (c *checker) homeGone(now time.Time, f homeFact) {
	c.heard(now, f.Session, f.Cluster+" has no more", f)
	if c.excused[f.UID] {
		return
	}
	word := c.wordOf(f.Session, f.Cluster, 0)
	c.doubt(now, 4, "home/"+string(f.UID), &doubt{
		about: f.Session, watched: []string{hubName}, patience: watchLag,
		text: fmt.Sprintf("home %s is gone from %s, and nothing asked for it", f.Name, f.Cluster),
		still: func() bool {
			word.note()
			k := c.sessions[f.Session]
			return k == nil || k.lost || !k.Deleting && !k.gone && (k.Cluster == "" || k.Cluster == f.Cluster)
		},
		proof: word.stays,
	})
}

// sight: the watch of a cluster works, or does not. What a member said while
// nobody listened is taken as said.
func (c *checker) sight(cluster string, sees bool) {
	if c.blind[cluster] && sees {
		for uid, f := range c.held[cluster] {
			c.ready[placing{uid, f.Epoch}] = true
		}
	}
	c.blind[cluster] = !sees
}
