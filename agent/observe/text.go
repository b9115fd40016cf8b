package observe

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxMessage is the most bytes of a message: an event's note takes 1,024.
	maxMessage = 1000
	// maxCause is the most bytes of a quoted error within a message, so that the remedy is
	// never cut off.
	maxCause = 600
)

// cut shortens a text to so many bytes, of which the last show that it was cut.
// It cuts no character in two.
func cut(s string, most int) string {
	const mark = "…"
	if len(s) <= most {
		return s
	}
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// cause quotes an error as a part of a sentence.
func cause(s string) string {
	return cut(strings.TrimSuffix(strings.TrimSpace(s), "."), maxCause)
}

// sentence ends a text with a full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}
