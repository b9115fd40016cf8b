// Package protocol tests both ends of the link together: the state machines
// of hub/link and agent/link by transcripts (testdata/*.txt, updated with
// -update) and by random faults, and the I/O around them over real TLS.
//
// In the transcripts and properties there is no network, clock or goroutine:
// a world delivers messages one by one, or loses them. The machines have small
// models of a member and a hub around them, with the rules of
// agent/assignment and hub/member that matter to the link.
package protocol
