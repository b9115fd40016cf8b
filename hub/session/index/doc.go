// Package index has the indexes of the hub's cache of sessions, and what is counted by them.
package index
