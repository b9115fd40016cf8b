// Package log accepts a logger and does not use it: see package lego.
package log

import "log/slog"

// SetDefault ignores its argument.
func SetDefault(*slog.Logger) {}
