package assignment

import "k8s.io/apimachinery/pkg/types"

// maxFloors bounds the memory for sessions that are gone. A stale order can
// only come from the stream that is open, so the latest are more than enough.
const maxFloors = 100_000

// floors remember the lowest epoch of each session that may still be stored.
// It is not safe for concurrent use.
type floors struct {
	lowest map[types.UID]int64
	// order is that of first mention, to forget the oldest.
	order []types.UID
	limit int
}

func newFloors(limit int) *floors {
	return &floors{lowest: map[types.UID]int64{}, limit: limit}
}

// raise says that epochs below one are not to be stored any more.
func (f *floors) raise(uid types.UID, lowest int64) {
	known, ok := f.lowest[uid]
	if !ok {
		f.order = append(f.order, uid)
		if len(f.order) > f.limit {
			delete(f.lowest, f.order[0])
			f.order = f.order[1:]
		}
	}
	f.lowest[uid] = max(known, lowest)
}

// of is the lowest epoch of a session that may be stored.
func (f *floors) of(uid types.UID) int64 { return f.lowest[uid] }
