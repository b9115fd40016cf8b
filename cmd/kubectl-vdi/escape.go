package main

import (
	"fmt"
	"strings"
	"unicode"
)

// escaped makes the control characters of a text visible, as kubectl's printers do, except
// newlines and tabs: the text may come from a member's agent.
func escaped(text string) string {
	return mapped(text, func(r rune) string {
		switch {
		case r == '\n' || r == '\t':
			return string(r)
		case r < ' ':
			return "^" + string(r+'@')
		}
		return fmt.Sprintf("<%04X>", r)
	})
}

// escapedJSON returns equivalent JSON without control characters in its strings.
func escapedJSON(text string) string {
	return mapped(text, func(r rune) string {
		if r == '\n' || r > 0xffff {
			return string(r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// mapped returns a text with each character that is not printable replaced.
func mapped(text string, replace func(rune) string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "?") {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(replace(r))
		}
	}
	return b.String()
}

// cell returns a text without newlines and tabs, for a table's cell.
func cell(text string) string {
	return escaped(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}
