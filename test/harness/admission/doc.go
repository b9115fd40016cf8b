// Package admission waits until the admission policies of a hub are in force.
package admission
