// Package logging sets up the logs of hub and agent.
package logging
