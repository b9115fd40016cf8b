package convert

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// What one item may hold. Each is at least what the API admits, so that nothing
// is refused here that a user may ask for; an item beyond is refused alone.
const (
	// MaxName is the longest name or namespace, as of any Kubernetes object.
	MaxName = 253
	// MaxWord is the longest UID, hash, reason or state.
	MaxWord = 128
	// MaxProof is the longest proof of a placement.
	MaxProof = 64
	// MaxMessage is how many bytes of a sentence for people are kept.
	MaxMessage = 2048
	// MaxMessages is how many bytes of all sentences of one report are kept.
	MaxMessages = 8192
	// MaxConditions of a report.
	MaxConditions = 16
	// maxText is the longest path, image, host or value of a selector.
	maxText = 1024
	// maxArgument is the longest argument, value or content of a file: with
	// all of them an assignment still is stored in etcd as one object.
	maxArgument = 1 << 20
	// maxList and maxArguments are the most entries of a list.
	maxList      = 64
	maxArguments = 256
)

// CheckName refuses what can be no name or namespace of a Kubernetes object:
// lower case letters, digits, '-' and '.'.
func CheckName(field, text string) error {
	if text == "" {
		return fmt.Errorf("%s: missing", field)
	}
	if len(text) > MaxName {
		return tooLong(field, len(text), MaxName)
	}
	for i := range len(text) {
		c := text[i]
		letter := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '.') {
			return fmt.Errorf("%s: %q is no name", field, text)
		}
	}
	return nil
}

// CheckWord refuses what is longer than a limit or has anything but visible
// ASCII characters. Empty is a word.
func CheckWord(field, text string, limit int) error {
	if len(text) > limit {
		return tooLong(field, len(text), limit)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return fmt.Errorf("%s: %q is no identifier", field, text)
		}
	}
	return nil
}

// Truncated is the beginning of a text, of at most limit bytes and whole
// characters.
func Truncated(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Printable is a text with a space for whatever is not printable: control
// characters, which a terminal would obey, line breaks, and what has no width or
// changes the direction of writing. It is valid UTF-8.
func Printable(text string) string {
	if printable(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Sentence is a text for people that came from another process: its printable
// beginning, of at most limit bytes.
func Sentence(text string, limit int) string {
	// What can't become part of it need not be looked at.
	return Truncated(Printable(Truncated(text, 4*limit)), limit)
}

func tooLong(field string, length, limit int) error {
	return fmt.Errorf("%s: %d bytes, more than %d", field, length, limit)
}

func tooMany(field string, count, limit int) error {
	return fmt.Errorf("%s: %d entries, more than %d", field, count, limit)
}

// checks collects the first refusal of many.
type checks struct{ err error }

func (c *checks) name(field, text string) {
	if c.err == nil {
		c.err = CheckName(field, text)
	}
}

func (c *checks) optionalName(field, text string) {
	if text != "" {
		c.name(field, text)
	}
}

func (c *checks) word(field, text string) {
	if c.err == nil {
		c.err = CheckWord(field, text, MaxWord)
	}
}

func (c *checks) proof(text string) {
	if c.err == nil {
		c.err = CheckWord("proof", text, MaxProof)
	}
}

func (c *checks) text(field, text string, limit int) {
	if c.err == nil && len(text) > limit {
		c.err = tooLong(field, len(text), limit)
	}
}

func (c *checks) count(field string, count, limit int) {
	if c.err == nil && count > limit {
		c.err = tooMany(field, count, limit)
	}
}

// checkReport refuses a report with a field beyond its limit. Sentences for
// people are cut instead, when they are read.
func checkReport(w *fleetv1.AssignmentReport) error {
	c := &checks{err: checkIdentity(w.GetSessionUid(), w.GetNamespace(), w.GetName(), w.GetEpoch())}
	c.word("session_uid", w.GetSessionUid())
	c.name("namespace", w.GetNamespace())
	c.name("name", w.GetName())
	c.word("spec_hash", w.GetSpecHash())
	c.proof(w.GetProof())
	c.optionalName("session_namespace", w.GetSessionNamespace())
	c.optionalName("session_name", w.GetSessionName())
	s := w.GetStatus()
	c.text("status.state", s.GetState(), MaxWord)
	c.text("status.reason", s.GetReason(), MaxWord)
	c.text("status.node_name", s.GetNodeName(), MaxName)
	c.count("status.conditions", len(s.GetConditions()), MaxConditions)
	c.text("status.failure.reason", s.GetFailure().GetReason(), MaxWord)
	c.text("status.config_name", s.GetConfigName(), MaxName)
	c.text("status.config_hash", s.GetConfigHash(), MaxWord)
	c.count("status.missing_secrets", len(s.GetMissingSecrets()), maxList)
	for _, name := range s.GetMissingSecrets() {
		c.text("status.missing_secrets", name, MaxName)
	}
	for _, condition := range s.GetConditions() {
		c.text("status.conditions.type", condition.GetType(), MaxWord)
		c.text("status.conditions.reason", condition.GetReason(), MaxWord)
	}
	return c.err
}
