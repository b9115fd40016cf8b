package observe

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxMessage is the most bytes of a message: an event's note has at most 1,024.
	maxMessage = 1000
	// maxCause is the most bytes of a quoted error, so that the remedy is complete.
	maxCause = 600
)

// truncate shortens a text to at most so many bytes, between characters, and appends an
// ellipsis.
func truncate(s string, limit int) string {
	const ellipsis = "…"
	if len(s) <= limit {
		return s
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// cause quotes an error as a part of a sentence.
func cause(s string) string {
	return truncate(strings.TrimSuffix(strings.TrimSpace(s), "."), maxCause)
}

// sentence ends a text with a full stop.
func sentence(s string) string {
	return strings.TrimSuffix(strings.TrimSpace(s), ".") + "."
}
