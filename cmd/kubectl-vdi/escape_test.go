package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// controlSequences set a terminal's clipboard, move up a line, and forge another row.
const controlSequences = "\x1b]52;c;Y3VybA==\x07\x1b[2A\r\u009b1A\x7f\n1\tforged\teu\tfits"

func TestOutputHasNoControlCharacters(t *testing.T) {
	review := &v1alpha1.PlacementReview{}
	review.Spec.Count = 1
	review.Status.Reason, review.Status.Message, review.Status.Policy = "Unschedulable", controlSequences, controlSequences
	review.Status.Clusters = []v1alpha1.ClusterVerdict{{ClusterName: "eu", Region: controlSequences, Filter: "Template", Message: controlSequences}}
	for _, output := range []string{"", "json"} {
		var out bytes.Buffer
		if err := (&cluster{output: output}).printResult(&out, review, reviewText(review)); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.String() {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Errorf("output %q: %q is printed:\n%q", output, r, out.String())
				break
			}
		}
		if output == "json" {
			again := &v1alpha1.PlacementReview{}
			if err := json.Unmarshal(out.Bytes(), again); err != nil || again.Status.Message != controlSequences {
				t.Errorf("%v: %q", err, again.Status.Message)
			}
			continue
		}
		for _, line := range strings.Split(out.String(), "\n") {
			if strings.HasPrefix(line, "1 ") || strings.HasPrefix(line, "1\t") {
				t.Errorf("a forged row: %q", line)
			}
		}
		if !strings.Contains(out.String(), "^[]52;c;") {
			t.Errorf("what was left out can't be seen:\n%s", out.String())
		}
	}
}

func TestWhatPeopleWriteIsPrintedAsItIs(t *testing.T) {
	const text = "größer als 世界\n  in eu\tfits"
	if got := escaped(text); got != text {
		t.Errorf("%q", got)
	}
}
