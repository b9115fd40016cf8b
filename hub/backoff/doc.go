// Package backoff sets how soon the hub's controllers retry what failed.
package backoff
