// Package buffer evaluates the schedules of members' buffers (docs/design.md, section 6).
//
// It is pure: a buffer and a time in, the number of slots and the time of the next change out.
//
// Invariants:
//   - The result depends on the buffer and the time alone.
//   - A period is an interval of time, and not a set of clock readings: while the clocks of its time zone
//     go back, it neither ends early nor begins again.
//   - Of periods that overlap, the one with the most slots counts, in whatever order they are listed.
package buffer
