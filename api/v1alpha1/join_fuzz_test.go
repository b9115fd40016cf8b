package v1alpha1

import (
	"strings"
	"testing"
)

// FuzzJoinTokenID checks that the ID of every accepted token yields a valid name of a Secret.
func FuzzJoinTokenID(f *testing.F) {
	for _, token := range []string{"abcdef.0123456789abcdef0123456789abcdef", "a.b.c", ".", "../x.y", "a\n.b", "A.b", ""} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		id, ok := JoinTokenID(token)
		if !ok {
			return
		}
		if id == "" || !strings.HasPrefix(token, id+".") || len(JoinTokenPrefix+id) > 253 ||
			strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Fatalf("%q has the ID %q", token, id)
		}
	})
}
