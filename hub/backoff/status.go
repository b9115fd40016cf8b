package backoff

import (
	"hash/maphash"
	"math"
	"time"
)

// StatusInterval is the minimum time between two status writes of one object for what changes
// with every session, in a small fleet.
const StatusInterval = 2 * time.Second

// statusWritesPerSecond bounds these writes for all objects of a kind together.
const statusWritesPerSecond = 20

// leaseWritesPerSecond bounds the writes of the members' Leases, which only show heartbeats.
const leaseWritesPerSecond = 2

// StatusIntervalOf returns the minimum time between two status writes of one of so many objects of
// a kind: StatusInterval up to 40, and more beyond, so that all of them together take no more
// than 20 writes a second.
func StatusIntervalOf(objects int) time.Duration {
	return max(StatusInterval, time.Duration(objects)*time.Second/statusWritesPerSecond)
}

// LeaseIntervalOf returns the minimum time between two writes of the Lease of one of so many
// members.
func LeaseIntervalOf(members int) time.Duration {
	return time.Duration(members) * time.Second / leaseWritesPerSecond
}

var seed = maphash.MakeSeed()

// Share returns a part of an interval, always the same for a key in this process, for what all of very
// many would otherwise do at once.
func Share(key string, interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * float64(maphash.String(seed, key)) / math.MaxUint64)
}
