package main

import (
	"context"
	"sync/atomic"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
)

// openingAtOnce is how many simulated members open a connection at a time. All are one process: with a
// thousand handshakes and inventories in its queue, it answered the hub after up to a second, and that was
// most of what a renewal took. Each agent has its own process, and its own cores.
const openingAtOnce = 8

// turns are the credentials of a member, which wait for the member's turn to open a connection.
type turns struct {
	link.Credentials
	open chan struct{}
	// taken is set from the member's turn until its first renewal is granted, or the connection ends.
	taken atomic.Bool
}

// Current implements link.Credentials.
func (t *turns) Current(ctx context.Context) (*link.Credential, error) {
	select {
	case t.open <- struct{}{}:
		t.taken.Store(true)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	credential, err := t.Credentials.Current(ctx)
	if err != nil {
		t.end()
	}
	return credential, err
}

// Ended implements link.Credentials.
func (t *turns) Ended(c *link.Credential, reason error) {
	t.end()
	t.Credentials.Ended(c, reason)
}

// end ends the turn, if the member has it.
func (t *turns) end() {
	if t.taken.CompareAndSwap(true, false) {
		<-t.open
	}
}
