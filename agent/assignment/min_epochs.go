package assignment

import "k8s.io/apimachinery/pkg/types"

// maxMinEpochs bounds the memory for sessions that are gone. A stale order can only
// come from the stream that is open, so the latest are more than enough.
const maxMinEpochs = 100_000

// minEpochs remembers the lowest epoch of each session that may still be stored. It is
// not safe for concurrent use.
type minEpochs struct {
	lowest map[types.UID]int64
	// order is that of first mention, to drop the oldest.
	order []types.UID
	limit int
}

func newMinEpochs(limit int) *minEpochs {
	return &minEpochs{lowest: map[types.UID]int64{}, limit: limit}
}

// raise excludes the epochs below lowest.
func (m *minEpochs) raise(uid types.UID, lowest int64) {
	known, ok := m.lowest[uid]
	if !ok {
		m.order = append(m.order, uid)
		if len(m.order) > m.limit {
			delete(m.lowest, m.order[0])
			m.order = m.order[1:]
		}
	}
	m.lowest[uid] = max(known, lowest)
}

// of returns the lowest epoch of a session that may be stored.
func (m *minEpochs) of(uid types.UID) int64 { return m.lowest[uid] }
