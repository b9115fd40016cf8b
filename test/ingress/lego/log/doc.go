// Package log takes a logger that is not used: see package lego.
package log

import "log/slog"

// SetDefault keeps nothing.
func SetDefault(*slog.Logger) {}
