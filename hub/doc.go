// Package hub composes the hub: the manager, the fleet and its provider, the
// controllers of sessions, members and templates, and the link's server. It
// decides nothing itself.
//
// Every replica serves metrics and health. Only the leader listens for agents, places,
// and writes; package election refuses writes of a replica that does not certainly lead,
// and package leadership labels the leader's Pod for the agents' Service.
package hub
