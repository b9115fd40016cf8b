// Package index has the indexes of the hub's cache of sessions, and counts by them.
package index
