package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// watchLag is how long a watch may be behind another before their disagreement
// counts. It is far above what a loaded machine shows.
const watchLag = 5 * time.Second

// justBefore is how much sooner than a Pod's first sight its reason to go may
// have been seen, by another watch.
const justBefore = 2 * time.Second

// placing is one epoch of a session.
type placing struct {
	session types.UID
	epoch   int64
}

// made is what one attempt of a placing is made of.
type made struct {
	placing
	attempt int64
}

// known is all that was ever seen of a session.
type known struct {
	sessionFact
	// gone: deleted. lost: the hub was restored from a time before it.
	gone, lost bool
	// before is the highest epoch that anybody has seen before the hub was restored,
	// and backup the highest that the backup knows of; 0: it was not restored.
	before, backup int64
	// placed is the highest epoch of a placement.
	placed int64
	// rested is when it was last seen to be told to stop, by either side.
	rested time.Time
	// edited is when the desktop of its assignment last became another.
	edited time.Time
}

type seenPod struct {
	podFact
	since time.Time
}

// checker is told what the API servers hold, and finds what breaks a promise.
// It has no clock and asks nobody but the oracle.
type checker struct {
	sessions map[types.UID]*known
	held     map[string]map[types.UID]assignmentFact
	pods     map[types.UID]seenPod
	// homes of each epoch: the member that it was given to, or seen in.
	epochs map[placing]string
	// ready: the member has said so of this epoch.
	ready    map[placing]bool
	revision map[made]string
	users    map[types.UID]string

	// blind are the clusters whose watch is interrupted.
	blind map[string]bool
	// away are those that a scenario took from the hub, since when; word those of
	// which an operator said that they are off; gone those that never come back.
	away       map[string]time.Time
	word, gone map[string]bool
	// twice are sessions that may run in two members at once: Restart's, rescheduled
	// while their member was away.
	twice map[types.UID]bool
	// patience is what a member has that is away.
	patience patience
	// logged: what runs is told by the simulated kubelets' own logs, and a Pod is
	// no more than an object.
	logged bool
	// excused are objects that the tests removed themselves.
	excused map[types.UID]bool
	doubts  map[string]*doubt
	broken  []violation
	named   map[string]bool
	// trails are the last things heard of each session, for whoever reads of a
	// violation.
	trails map[types.UID][]string
	// seen counts what it was told, so that silence is no success.
	seen int
}

// violation is a promise that was not kept.
type violation struct {
	Promise int       `json:"promise"`
	Time    time.Time `json:"time"`
	What    string    `json:"what"`
	// Trail is what was heard last of the session.
	Trail []string `json:"trail,omitempty"`
}

func (v violation) String() string {
	return fmt.Sprintf("promise %d at %s: %s", v.Promise, v.Time.Format("15:04:05.000"), v.What)
}

func newChecker() *checker {
	return &checker{
		sessions: map[types.UID]*known{}, held: map[string]map[types.UID]assignmentFact{}, pods: map[types.UID]seenPod{},
		epochs: map[placing]string{}, ready: map[placing]bool{}, revision: map[made]string{}, users: map[types.UID]string{},
		blind: map[string]bool{}, away: map[string]time.Time{}, word: map[string]bool{}, twice: map[types.UID]bool{}, gone: map[string]bool{}, excused: map[types.UID]bool{},
		doubts: map[string]*doubt{}, named: map[string]bool{}, trails: map[types.UID][]string{},
	}
}

// trailLength is how much of the trail of a session is kept.
const trailLength = 40

// heard notes a fact in the trail of its session.
func (c *checker) heard(now time.Time, session types.UID, what string, fact any) {
	c.seen++
	trail := append(c.trails[session], fmt.Sprintf("%s %s %+v", now.Format("15:04:05.000"), what, fact))
	c.trails[session] = trail[max(0, len(trail)-trailLength):]
}

// breach notes a violation, once for each thing.
func (c *checker) breach(now time.Time, promise int, about types.UID, key, format string, args ...any) {
	key = fmt.Sprintf("%d/%s", promise, key)
	if c.named[key] {
		return
	}
	c.named[key] = true
	c.broken = append(c.broken, violation{Promise: promise, Time: now, What: fmt.Sprintf(format, args...), Trail: slices.Clone(c.trails[about])})
}

// session is told of each state of one on the hub.
func (c *checker) session(now time.Time, f sessionFact) {
	c.heard(now, f.UID, "hub has", f)
	k := c.sessions[f.UID]
	if k == nil {
		k = &known{}
		c.sessions[f.UID] = k
	}
	key := string(f.UID)
	if f.Epoch < k.Epoch {
		c.breach(now, 2, f.UID, key, "session %s: status.epoch fell from %d to %d", f.Name, k.Epoch, f.Epoch)
	}
	if f.Cluster != "" {
		c.place(now, k, f)
		c.again(now, k, f)
	}
	for cluster, epoch := range f.Superseded {
		c.superseded(now, f, cluster, epoch)
	}
	k.sessionFact, k.gone, k.lost = f, false, false
	if f.Suspended {
		k.rested = now
	}
}

// place checks a placement: promises 2 and 3.
func (c *checker) place(now time.Time, k *known, f sessionFact) {
	p := placing{f.UID, f.Placed}
	key := fmt.Sprintf("%s/%d", f.UID, f.Placed)
	if f.Placed < k.placed {
		c.breach(now, 2, f.UID, key, "session %s: its placement went from epoch %d back to %d", f.Name, k.placed, f.Placed)
	}
	k.placed = max(k.placed, f.Placed)
	if f.Placed > f.Epoch {
		c.breach(now, 3, f.UID, key, "session %s: placed under epoch %d, above its highest %d", f.Name, f.Placed, f.Epoch)
	}
	if before, given := c.epochs[p]; given && before != f.Cluster {
		c.breach(now, 3, f.UID, key, "session %s: epoch %d was given to %s, and then to %s", f.Name, f.Placed, before, f.Cluster)
	}
	c.epochs[p] = f.Cluster
	if f.PodReady && !c.ready[p] {
		c.doubt(now, 2, "ready/"+key, &doubt{
			about: f.UID, watched: []string{f.Cluster}, patience: watchLag,
			text:  fmt.Sprintf("session %s: the hub shows its desktop ready in %s under epoch %d, and the member has never said so", f.Name, f.Cluster, f.Placed),
			still: func() bool { return !c.ready[p] },
		})
	}
}

// sessionGone: the hub has it no more.
func (c *checker) sessionGone(now time.Time, uid types.UID) {
	c.heard(now, uid, "hub has no more", "")
	if k := c.sessions[uid]; k != nil {
		k.gone = true
	}
}

// restored: the hub's API server was put back to an earlier time, and holds these
// sessions. What it had since then is lost and not deleted. Its epochs fall to those
// of the backup, once; no other that anybody has seen may be given again.
func (c *checker) restored(holds map[types.UID]sessionFact) {
	for uid, k := range c.sessions {
		k.before = max(k.before, k.Epoch, k.placed)
		for _, held := range c.held {
			k.before = max(k.before, held[uid].Epoch)
		}
		now, known := holds[uid]
		k.lost = k.lost || !known && !k.gone
		k.Epoch, k.placed, k.backup = now.Epoch, now.Placed, now.Epoch
	}
	c.doubts = map[string]*doubt{}
}

// again checks that a hub that was restored gives no epoch that was seen before,
// unless the member holds it, and shows so what the hub has forgotten: promise 3.
func (c *checker) again(now time.Time, k *known, f sessionFact) {
	if f.Placed <= k.backup || f.Placed > k.before || c.held[f.Cluster][f.UID].Epoch == f.Placed {
		return
	}
	c.breach(now, 3, f.UID, fmt.Sprintf("%s/%d/again", f.UID, f.Placed),
		"session %s: epoch %d was seen before the hub was restored, and is given to %s, which does not hold it", f.Name, f.Placed, f.Cluster)
}

// storedAgain checks that no epoch of before a restore reaches a member that does
// not hold it: promise 3.
func (c *checker) storedAgain(now time.Time, f assignmentFact, was bool) {
	k := c.sessions[f.Session]
	if k == nil || k.before == 0 || was || f.Epoch > k.before || c.blind[f.Cluster] {
		return
	}
	c.breach(now, 3, f.Session, fmt.Sprintf("%s/%d/stored", f.Session, f.Epoch),
		"assignment %s: %s holds epoch %d, of before the hub was restored, and did not then", f.Name, f.Cluster, f.Epoch)
}

// assignment is told of each state of one in a member.
func (c *checker) assignment(now time.Time, f assignmentFact) {
	c.heard(now, f.Session, f.Cluster+" holds", f)
	if c.held[f.Cluster] == nil {
		c.held[f.Cluster] = map[types.UID]assignmentFact{}
	}
	before, was := c.held[f.Cluster][f.Session]
	c.storedAgain(now, f, was)
	c.held[f.Cluster][f.Session] = f
	if k := c.sessions[f.Session]; k != nil {
		if f.Suspended || f.Failed || f.Lapsed {
			k.rested = now
		}
		if was && before.Desktop != f.Desktop {
			k.edited = now
		}
	}
	p := placing{f.Session, f.Epoch}
	if f.PodReady {
		c.ready[p] = true
	}
	c.given(now, f, p)
	c.sameThing(now, f, p)
	c.belongs(now, f)
}

// given checks that the hub gave this epoch to this member: promise 3.
func (c *checker) given(now time.Time, f assignmentFact, p placing) {
	key := fmt.Sprintf("%s/%d", f.Session, f.Epoch)
	if cluster, known := c.epochs[p]; known {
		if cluster != f.Cluster {
			c.breach(now, 3, f.Session, key, "assignment %s: %s holds epoch %d, which was given to %s", f.Name, f.Cluster, f.Epoch, cluster)
		}
		return
	}
	name := ""
	if k := c.sessions[f.Session]; k != nil {
		if k.lost {
			return
		}
		name = k.Name
	}
	c.doubt(now, 3, "given/"+key, &doubt{
		about: f.Session, watched: []string{hubName},
		text:  fmt.Sprintf("assignment %s: %s holds epoch %d, which the hub's API server does not have", f.Name, f.Cluster, f.Epoch),
		still: func() bool { return c.epochs[p] == "" },
		proof: func(ctx context.Context, o oracle) (bool, error) {
			s, err := o.session(ctx, name, f.Session)
			return err == nil && (s == nil || s.Epoch < f.Epoch), err
		},
	})
}

// sameThing checks that an epoch stays what it was: promise 3.
func (c *checker) sameThing(now time.Time, f assignmentFact, p placing) {
	key := fmt.Sprintf("%s/%d/spec", f.Session, f.Epoch)
	m := made{p, f.Attempt}
	if before, seen := c.revision[m]; seen && before != f.Revision {
		c.breach(now, 3, f.Session, key, "assignment %s: attempt %d of epoch %d was made of revision %s, and then of %s", f.Name, f.Attempt, f.Epoch, before, f.Revision)
	}
	c.revision[m] = f.Revision
	if before, seen := c.users[f.Session]; seen && before != f.User {
		c.breach(now, 3, f.Session, key+"/user", "assignment %s: of user %s, and then of %s", f.Name, before, f.User)
	}
	c.users[f.Session] = f.User
}

// belongs checks that the session is placed here, or being released: promise 5.
func (c *checker) belongs(now time.Time, f assignmentFact) {
	wrong := func() bool {
		held, there := c.held[f.Cluster][f.Session]
		k := c.sessions[f.Session]
		return there && !c.gone[f.Cluster] && held.Epoch == f.Epoch && (k == nil || !k.lost && (k.gone || !k.admits(f.Cluster, f.Epoch)))
	}
	if !wrong() {
		return
	}
	name := ""
	if k := c.sessions[f.Session]; k != nil {
		name = k.Name
	}
	c.doubt(now, 5, fmt.Sprintf("belongs/%s/%s", f.Cluster, f.Session), &doubt{
		about: f.Session, watched: []string{hubName, f.Cluster}, patience: watchLag,
		text:  fmt.Sprintf("assignment %s: %s holds epoch %d, and the session is neither placed there nor being released", f.Name, f.Cluster, f.Epoch),
		still: wrong,
		proof: func(ctx context.Context, o oracle) (bool, error) {
			// The member first: an assignment that goes meanwhile was right to.
			a, err := o.assignment(ctx, f.Cluster, f.Name, f.Session)
			if err != nil || a == nil {
				return false, err
			}
			s, err := o.session(ctx, name, f.Session)
			return err == nil && (s == nil || !s.admits(f.Cluster, a.Epoch)), err
		},
	})
}
