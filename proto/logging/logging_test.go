package logging

import (
	"bytes"
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// counted counts how often it is encoded.
type counted struct{ times *int }

func (c counted) MarshalJSON() ([]byte, error) {
	*c.times++
	return []byte(`"encoded"`), nil
}

func TestValuesAreEncodedOnlyIfSomethingIsLogged(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	encoded := 0
	first := New(&zap.Options{DestWriter: &written}).WithName("vdisession").WithValues("object", counted{&encoded})
	second := first.WithValues("name", types.NamespacedName{Namespace: "desktops", Name: "one"})
	second.V(1).Info("not at this level")
	if encoded > 0 || written.Len() > 0 {
		t.Fatalf("encoded %d times, although nothing is logged: %s", encoded, written.String())
	}
	second.Info("both")
	second.Info("again", "more", 1)
	if encoded != 1 {
		t.Errorf("encoded %d times, want once", encoded)
	}
	lines := bytes.Split(bytes.TrimSpace(written.Bytes()), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2: %s", len(lines), written.String())
	}
	for i, want := range []string{"both", "again"} {
		var line struct{ Msg, Logger, Object string }
		if err := json.Unmarshal(lines[i], &line); err != nil || line.Msg != want || line.Logger != "vdisession" || line.Object != "encoded" {
			t.Errorf("line %d is %s (%v)", i, lines[i], err)
		}
	}
}
