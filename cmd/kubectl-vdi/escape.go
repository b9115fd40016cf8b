package main

import (
	"fmt"
	"strings"
	"unicode"
)

// escaped returns a text in which the characters that a terminal would execute are visible, as
// kubectl's printers do: the text may come from a member's agent. Lines and columns are kept.
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

// escapedJSON returns equivalent JSON without characters, within its strings, that a
// terminal would execute.
func escapedJSON(text string) string {
	return mapped(text, func(r rune) string {
		if r == '\n' || r > 0xffff {
			return string(r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// mapped returns a text with each character that is not printable replaced.
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

// cell returns a text that can't end its cell or row of a table.
func cell(text string) string {
	return escaped(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}
