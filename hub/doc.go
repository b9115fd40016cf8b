// Package hub composes the hub: the manager, the fleet and its provider, the
// controllers of sessions, members and templates, and the link's server. It
// decides nothing itself.
//
// Every replica serves metrics and health. Only the leader listens for agents,
// places, and writes; package leadership sees to it that one which only believes
// to lead does not, and labels the leader's Pod for the agents' Service.
package hub
