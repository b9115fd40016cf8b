// Package backoff sets how soon the hub's controllers retry what failed, and repeat what did not.
package backoff
