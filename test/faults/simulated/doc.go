// Package simulated has members without an API server: the production link of the agent over a store
// in memory. They stand for more members than this machine can run, or for more changes than its
// API servers can make; nothing that they do proves anything about a member's API server.
package simulated
