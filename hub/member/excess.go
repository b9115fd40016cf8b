package member

import (
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// refuseExcess refuses an agent whose last stream ended a moment ago because it
// reported too much: what it reports is read again only so often.
func (m *member) refuseExcess(t health.Timings, now time.Time) error {
	if m.exceeded == "" || now.Sub(m.exceededAt) >= t.Suspect {
		return nil
	}
	return fmt.Errorf("%w a moment ago, and is let in again after %s", link.ErrExcess, t.Suspect)
}

// tellExcess is for how long yet it is told of a member that its agent reported
// too much.
func (c *contact) tellExcess(t health.Timings, now time.Time) time.Duration {
	if c.exceeded == "" {
		return 0
	}
	return max(0, t.Recovery-now.Sub(c.exceededAt))
}

// takeExceeded returns what an event must say of an agent that reported too much:
// each reason once, until another or none was told.
func (f *Registry) takeExceeded(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil {
		return ""
	}
	if m.tellExcess(f.timings, f.look()) == 0 {
		m.exceeded, m.exceededTold = "", ""
	}
	if m.exceeded == m.exceededTold {
		return ""
	}
	m.exceededTold = m.exceeded
	return m.exceeded
}
