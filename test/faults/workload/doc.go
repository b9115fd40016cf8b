// Package workload creates, deletes, recreates, suspends, resumes and edits sessions for as long as a
// scenario lasts, with choices drawn from a seed.
package workload
