package convert

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// controlSequences set a terminal's clipboard, move up a line, and return to its beginning, in
// seven bits and in eight.
const controlSequences = "\x1b]52;c;Y3VybA==\x07\x1b[2A\r\x9b31m\u009b1A\n\tforged   row\u202e"

func TestNoStringOfAReportHasControlCharacters(t *testing.T) {
	w := smallReport()
	w.Status = &fleetv1.AssignmentStatus{
		State: controlSequences, Reason: controlSequences, Message: controlSequences, NodeName: controlSequences, MissingSecrets: []string{controlSequences},
		ConfigName: controlSequences, ConfigHash: controlSequences, Failure: &fleetv1.Failure{Reason: controlSequences, Message: controlSequences},
		Conditions: []*fleetv1.Condition{{Type: controlSequences, Status: "True", Reason: controlSequences, Message: controlSequences}},
	}
	a, err := ReportFromWire(w)
	if err != nil {
		t.Fatal(err)
	}
	s := &a.Status
	for name, text := range map[string]string{
		"state": string(s.State), "reason": s.Reason, "message": s.Message, "node": s.NodeName, "secret": s.MissingSecrets[0],
		"config": s.Config.Name, "hash": s.Config.Hash, "failure": s.Failure.Reason, "why": s.Failure.Message,
		"type": s.Conditions[0].Type, "condition": s.Conditions[0].Reason, "condition message": s.Conditions[0].Message,
	} {
		if text != Printable(text) || !strings.Contains(text, "forged   row") {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestSentencesOfAReportAreBoundedTogether(t *testing.T) {
	w := smallReport()
	w.Status = &fleetv1.AssignmentStatus{Message: strings.Repeat("m", MaxMessage+1)}
	for range MaxConditions {
		w.Status.Conditions = append(w.Status.Conditions, &fleetv1.Condition{Type: "T", Status: "True", Message: strings.Repeat("c", MaxMessage)})
	}
	a, err := ReportFromWire(w)
	if err != nil {
		t.Fatal(err)
	}
	bytes := len(a.Status.Message)
	for _, c := range a.Status.Conditions {
		bytes += len(c.Message)
	}
	if bytes != MaxMessages || len(a.Status.Conditions) != MaxConditions {
		t.Errorf("%d bytes of %d conditions", bytes, len(a.Status.Conditions))
	}
}

func TestPrintableKeepsPrintableText(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"node-1: 0/3 nodes, ~5 s": "node-1: 0/3 nodes, ~5 s",
		"größer als 世界 …":         "größer als 世界 …",
		"two\nlines\there":        "two lines here",
		"\x1b[31mred\x1b[0m":      " [31mred [0m",
		"\x7f\u0085\u200b\ufeff":  "    ",
		"cut \xe4\xb8":            "cut ?",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestASentenceIsPrintableAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		got := Sentence(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || Printable(got) != got {
			t.Errorf("%q became %q", text, got)
		}
	})
}
