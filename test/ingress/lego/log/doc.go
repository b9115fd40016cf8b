// Package log takes a logger that nobody uses: see package lego.
package log

import "log/slog"

// SetDefault keeps nothing.
func SetDefault(*slog.Logger) {}
