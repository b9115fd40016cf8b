package placement

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the fleet at one time.
type Snapshot struct {
	// Now is the hub's time.
	Now time.Time
	// Candidates are all members.
	Candidates []Candidate
	// Ages of the members' capacity reports; members without a report are absent.
	Ages map[types.UID]time.Duration
	// Awaits is why nothing is placed now, for AwaitsFor at most; nil: sessions are placed.
	Awaits    *Decision
	AwaitsFor time.Duration
	// MostGone is set if so many members are gone that sessions are rescheduled more slowly.
	MostGone bool
}
