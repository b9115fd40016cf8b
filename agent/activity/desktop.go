package activity

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// enough unknown answers in a row say that a desktop does not tell whether it
// is used.
const enough = 3

// Target is a desktop to be asked.
type Target struct {
	// Assignment that it is of, and its UID: another of that name is another
	// desktop.
	Assignment types.NamespacedName
	UID        types.UID
	// URL that answers.
	URL string
	// Limit is its idle timeout; zero: it has none.
	Limit time.Duration
	// Began is when its run began: it was not idle before.
	Began time.Time
}

// Word is what is known of a desktop's use.
type Word struct {
	// Idle is how near it was to its idle timeout when it was last asked:
	// IdleOver is only ever said upon an answer that says so itself.
	// IdleUnknown until there is an answer, and once there are none any more.
	Idle observe.Idleness
	// Use of it. Not known until there is an answer.
	Use observe.Use
	// Silent: it was asked several times in a row, and gave no answer that
	// could be understood.
	Silent bool
}

// desktop is one that is watched.
type desktop struct {
	target Target
	word   Word
	// unknowns is how many answers in a row were not understood.
	unknowns int
	// due is when it is to be asked next; asking: it is being asked.
	due    time.Time
	asking bool
}

// retarget takes a target that may have changed. What was heard of another Pod,
// in an earlier run or under another limit says nothing of this one. It reports
// whether anything changed.
func (d *desktop) retarget(t Target, o Options) bool {
	if d.target == t {
		return false
	}
	*d = desktop{target: t, asking: d.asking}
	// Until then nothing that it says matters.
	d.due = t.Began.Add(nextQuestion(0, t.Limit, o))
	return true
}

// hears an answer, and reports whether it matters to the session.
func (d *desktop) hears(idle time.Duration, o Options, now time.Time) bool {
	idle = min(idle, max(now.Sub(d.target.Began), 0))
	before := d.word
	d.unknowns = 0
	d.word = Word{Idle: observe.IdlenessOf(idle, d.target.Limit), Use: observe.Use{Known: true}}
	if idle >= o.IdleAfter {
		d.word.Use.Since = sameUse(before.Use.Since, now.Add(-idle))
	}
	d.due = now.Add(nextQuestion(idle, d.target.Limit, o))
	return d.word != before || d.word.Idle == observe.IdleOver
}

// hearsNothing takes an answer that was not understood, and reports whether it
// matters to the session.
func (d *desktop) hearsNothing(o Options, now time.Time) bool {
	before := d.word
	if d.due = now.Add(o.Most); d.unknowns < 30 {
		d.due = now.Add(min(o.Least<<d.unknowns, o.Most))
		d.unknowns++
	}
	if d.unknowns >= enough {
		d.word = Word{Silent: true, Use: observe.Use{Known: true}}
	}
	return d.word != before
}

// sameUse is a desktop's last use. Two answers about the same use never agree to
// the second.
func sameUse(before, now time.Time) time.Time {
	if now = now.Truncate(time.Second); now.Sub(before).Abs() <= agree {
		return before
	}
	return now
}

// agree is by how much two answers about the same use may differ.
const agree = 5 * time.Second

// nextQuestion is how long a desktop that was idle for so long need not be
// asked: before it can be told to be idle, or near its end, nothing it says
// matters. While it is idle its next use is to be told soon. Near its end its
// user is about to come back or to lose the desktop, so it is asked a few times,
// and at the end itself.
func nextQuestion(idle, limit time.Duration, o Options) time.Duration {
	wait := o.IdleAfter - idle
	if wait <= 0 {
		wait = o.IdleAfter / 5
	}
	warn := api.WarnBefore(limit)
	switch {
	case limit <= 0:
	case idle < limit-warn:
		wait = min(wait, limit-warn-idle)
	case idle < limit:
		wait = min(wait, limit-idle, warn/2)
	default:
		wait = min(wait, warn/2)
	}
	return max(wait, o.Least)
}
