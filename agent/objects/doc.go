// Package objects reads and writes the objects with the agent's own state: ConfigMaps and
// Secrets in its namespace.
package objects
