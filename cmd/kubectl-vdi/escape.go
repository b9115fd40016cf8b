package main

import (
	"fmt"
	"strings"
	"unicode"
)

// escaped is a text with whatever a terminal would obey made visible, as kubectl's
// printers do: what is printed may come from a member's agent. Lines and columns
// stay.
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

// escapedJSON is JSON in which no character is left, within its strings, that a
// terminal would obey; it says the same.
func escapedJSON(text string) string {
	return mapped(text, func(r rune) string {
		if r == '\n' || r > 0xffff {
			return string(r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// mapped is a text with each character that is not printable made another.
func mapped(text string, to func(rune) string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "?") {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(to(r))
		}
	}
	return b.String()
}

// cell is a text that can't end its cell or row of a table.
func cell(text string) string {
	return escaped(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}
