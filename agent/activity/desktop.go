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
	// Limit is its idle timeout.
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
func (d *desktop) retarget(t Target) bool {
	if d.target == t {
		return false
	}
	*d = desktop{target: t, asking: d.asking}
	// Until then it can't be near its end, whatever it would say.
	d.due = t.Began.Add(t.Limit - api.WarnBefore(t.Limit))
	return true
}

// hears an answer, and reports whether it matters to the session.
func (d *desktop) hears(idle time.Duration, o Options, now time.Time) bool {
	idle = min(idle, max(now.Sub(d.target.Began), 0))
	before := d.word
	d.unknowns = 0
	d.word = Word{Idle: observe.IdlenessOf(idle, d.target.Limit)}
	d.due = now.Add(nextQuestion(idle, d.target.Limit, o.Least))
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
		d.word = Word{Silent: true}
	}
	return d.word != before
}

// nextQuestion is how long a desktop that was idle for so long need not be
// asked: before it can be near its end, nothing it says matters. Near its end
// its user is about to come back or to lose the desktop, so it is asked a few
// times, and at the end itself.
func nextQuestion(idle, limit, least time.Duration) time.Duration {
	warn := api.WarnBefore(limit)
	switch {
	case idle < limit-warn:
		return max(limit-warn-idle, least)
	case idle < limit:
		return max(min(limit-idle, warn/2), least)
	default:
		return max(warn/2, least)
	}
}
