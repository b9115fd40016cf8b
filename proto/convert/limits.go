package convert

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// The limits of one item. Each is at least what the API admits, so that nothing is
// refused here that a user may request; only the item beyond a limit is refused.
const (
	// MaxName is the longest name or namespace, as of any Kubernetes object.
	MaxName = 253
	// MaxToken is the longest UID, hash, reason or state.
	MaxToken = 128
	// MaxProof is the longest proof of a placement.
	MaxProof = 64
	// MaxMessage is how many bytes of a message are kept.
	MaxMessage = 2048
	// MaxMessages is how many bytes of all messages of one report are kept.
	MaxMessages = 8192
	// MaxConditions is the most conditions of a report.
	MaxConditions = 16
	// maxText is the longest path, image, host or value of a selector.
	maxText = 1024
	// maxArgument is the longest argument, value or content of a file: with all of them
	// an assignment still fits in one object of etcd.
	maxArgument = 1 << 20
	// MaxList is the most entries of a list, maxArguments of one of arguments, values
	// or data.
	MaxList      = 64
	maxArguments = 256
)

// CheckName refuses what can't be the name or namespace of a Kubernetes object: lower
// case letters, digits, '-' and '.'.
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
			return fmt.Errorf("%s: %q is not a valid name", field, text)
		}
	}
	return nil
}

// CheckToken refuses what is longer than a limit or has anything but visible ASCII
// characters. An empty text is accepted.
func CheckToken(field, text string, limit int) error {
	if len(text) > limit {
		return tooLong(field, len(text), limit)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return fmt.Errorf("%s: %q is not a valid identifier", field, text)
		}
	}
	return nil
}

// Truncated returns the beginning of a text, of at most limit bytes and whole characters.
func Truncated(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Printable returns a text with a space for each character that is not printable: control
// characters, line breaks, and characters without width or that change the direction of
// writing. It is valid UTF-8.
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

// Sentence returns the printable beginning, of at most limit bytes, of a message from
// another process.
func Sentence(text string, limit int) string {
	// Limits the work for a long text.
	return Truncated(Printable(Truncated(text, 4*limit)), limit)
}

func tooLong(field string, length, limit int) error {
	return fmt.Errorf("%s: %d bytes, more than %d", field, length, limit)
}

func tooMany(field string, count, limit int) error {
	return fmt.Errorf("%s: %d entries, more than %d", field, count, limit)
}

// Checks holds the first error of several checks.
type Checks struct{ Err error }

// refuse records an error unless an earlier check has failed.
func (c *Checks) refuse(err error) {
	if c.Err == nil {
		c.Err = err
	}
}

// Name is CheckName.
func (c *Checks) Name(field, text string) { c.refuse(CheckName(field, text)) }

func (c *Checks) optionalName(field, text string) {
	if text != "" {
		c.Name(field, text)
	}
}

// Token is CheckToken.
func (c *Checks) Token(field, text string, limit int) { c.refuse(CheckToken(field, text, limit)) }

// Tokens refuses a list of more than MaxList entries, or with one that CheckToken refuses.
func (c *Checks) Tokens(field string, list []string, limit int) {
	c.Count(field, len(list), MaxList)
	for _, text := range list {
		c.Token(field, text, limit)
	}
}

func (c *Checks) text(field, text string, limit int) {
	if len(text) > limit {
		c.refuse(tooLong(field, len(text), limit))
	}
}

// Count refuses a list of more than limit entries.
func (c *Checks) Count(field string, count, limit int) {
	if count > limit {
		c.refuse(tooMany(field, count, limit))
	}
}

// AtMost refuses a larger number.
func (c *Checks) AtMost(field string, number, limit int64) {
	if number > limit {
		c.refuse(fmt.Errorf("%s: %d, more than %d", field, number, limit))
	}
}

// NotNegative refuses a negative number.
func (c *Checks) NotNegative(field string, number int64) {
	if number < 0 {
		c.refuse(fmt.Errorf("%s: %d is negative", field, number))
	}
}

// checkReport refuses a report with a field beyond its limit. Messages are truncated
// instead, when they are converted.
func checkReport(w *fleetv1.AssignmentReport) error {
	c := checkIdentity(w.GetSessionUid(), w.GetNamespace(), w.GetName(), w.GetEpoch())
	c.Token("spec_hash", w.GetSpecHash(), MaxToken)
	c.Token("proof", w.GetProof(), MaxProof)
	c.optionalName("session_namespace", w.GetSessionNamespace())
	c.optionalName("session_name", w.GetSessionName())
	s := w.GetStatus()
	c.text("status.state", s.GetState(), MaxToken)
	c.text("status.reason", s.GetReason(), MaxToken)
	c.text("status.node_name", s.GetNodeName(), MaxName)
	c.Count("status.conditions", len(s.GetConditions()), MaxConditions)
	c.text("status.failure.reason", s.GetFailure().GetReason(), MaxToken)
	c.text("status.config_name", s.GetConfigName(), MaxName)
	c.text("status.config_hash", s.GetConfigHash(), MaxToken)
	c.Count("status.missing_secrets", len(s.GetMissingSecrets()), MaxList)
	for _, name := range s.GetMissingSecrets() {
		c.text("status.missing_secrets", name, MaxName)
	}
	for _, condition := range s.GetConditions() {
		c.text("status.conditions.type", condition.GetType(), MaxToken)
		c.text("status.conditions.reason", condition.GetReason(), MaxToken)
	}
	return c.Err
}
