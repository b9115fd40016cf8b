// Package cache is the scheduler's view of the fleet: the members as package member knows
// them, and the capacity that was reserved and that no report counts yet.
//
// A decision and its reservation are one step under the cache's lock. The members' own lock,
// which lease renewals need, is taken under it, and only for a snapshot; so the members call
// the cache without their lock. They store a capacity report before the cache drops the
// reservations that the report counts: in between capacity counts twice, never not at all.
package cache
