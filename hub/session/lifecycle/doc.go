// Package lifecycle decides what becomes of a session. [Next] computes, from what is known
// of the session at one time ([Input]), its next status and what else is to be done
// ([Plan]). It reads and writes nothing; package session gathers the Input and carries the
// Plan out.
//
// What a member proves comes first: epochs, confirmed stops and refusals; then the member's
// status, then the hub's decisions.
//
// A session that needs capacity makes one request (Plan.Ask). Next is then called again,
// with the scheduler's answer in the Input.
package lifecycle
