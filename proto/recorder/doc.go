// Package recorder limits events.
package recorder
