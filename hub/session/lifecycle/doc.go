// Package lifecycle computes the next state of a session. [Next] computes, from the state of
// the session at one time ([Input]), its next status and the actions that go with it ([Plan]).
// It reads and writes nothing; package session gathers the Input and executes the Plan.
//
// What a member proves is processed first: epochs, confirmed stops and refusals; then the
// member's status, then the hub's decisions.
//
// A session that needs capacity makes one request (Plan.Request). Next is then called
// again, with the scheduler's answer in the Input.
package lifecycle
