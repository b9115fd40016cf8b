package link

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// syncs finds the connection of a member, for what its agent says of it on its
// renewals. The zero value is empty.
type syncs struct {
	mu sync.Mutex
	of map[types.UID]*connection
}

func (s *syncs) add(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[types.UID]*connection{}
	}
	s.of[c.uid] = c
}

// remove leaves a later connection of the member alone.
func (s *syncs) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[c.uid] == c {
		delete(s.of, c.uid)
	}
}

// renewed hands what an agent said on a renewal to its connection. It never
// waits for what the connection is doing.
func (s *syncs) renewed(member types.UID, request *fleetv1.RenewLeaseRequest) {
	if request.GetSync() == nil {
		return
	}
	s.mu.Lock()
	c := s.of[member]
	s.mu.Unlock()
	if c == nil || c.instance != request.GetInstance() {
		return
	}
	c.mu.Lock()
	c.conn.Sync(request.GetSync())
	c.mu.Unlock()
	c.judge()
}

// judge compares the digests, if there is something to compare.
func (c *connection) judge() {
	member := c.admitted()
	if member == nil {
		return
	}
	sums := member.Sums()
	c.mu.Lock()
	verdict, ok := c.conn.Judge(sums)
	c.mu.Unlock()
	if !ok {
		return
	}
	for _, set := range verdict.Mismatched {
		metricMismatches.WithLabelValues(set).Inc()
	}
	if verdict.Resync != "" {
		metricResyncs.WithLabelValues(verdict.Resync).Inc()
		c.log.Info("the hub and a member disagree, and the agent is asked for all that it holds", "set", verdict.Resync)
		c.signal()
	}
	if verdict.Agreement != "" {
		member.Agreed(verdict.Agreement)
	}
}

// differing asks the agent for what the hub does not know already. If that is
// nothing, the inventory is in.
func (c *connection) differing(member Member, theirs *convert.Digest) {
	buckets := member.Differing(theirs)
	c.do(func(conn *protocol.Conn) { conn.Ask(buckets) })
	c.log.V(1).Info("inventory compared", "assignments", theirs.Len(), "differingBuckets", buckets.Len())
	if buckets.Len() == 0 {
		c.part(member, protocol.Part{})
		return
	}
	c.timer.Reset(c.server.options.InventoryTimeout)
}

func (c *connection) part(member Member, part protocol.Part) {
	c.timer.Stop()
	metricReports.Add(float64(len(part.Items)))
	member.Part(part.Buckets, part.Items)
	reported := member.Sums().Reported
	c.do(func(conn *protocol.Conn) { conn.Applied(protocol.Effect{Part: &part}, reported) })
}
