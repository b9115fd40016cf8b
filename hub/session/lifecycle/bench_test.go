package lifecycle

import (
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func BenchmarkNext(b *testing.B) {
	for name, in := range map[string]*Input{
		"requests": inputOf(neverPlaced),
		"placed":   inputOf(neverPlaced).with(fits(sessiontest.Here)),
		"runs":     inputOf(sessiontest.Ready, ran).with(reports(sessiontest.Here, v1alpha1.AssignmentActive, 5)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Next(in)
			}
		})
	}
}
