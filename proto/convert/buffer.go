package convert

import (
	"errors"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// maxBufferSlots limits the slots of a buffer, as the API does.
const maxBufferSlots = 10_000

// CheckedBuffers returns the buffers of a TemplateSet without those that are malformed, or beyond
// v1alpha1.MaxBuffers. The error names each of these with its field.
func CheckedBuffers(all []*fleetv1.Buffer) (sound []*fleetv1.Buffer, err error) {
	var errs []error
	if len(all) > v1alpha1.MaxBuffers {
		errs = append(errs, tooMany("buffers", len(all), v1alpha1.MaxBuffers))
		all = all[:v1alpha1.MaxBuffers]
	}
	known := map[string]bool{}
	for _, w := range all {
		err := checkBuffer(w)
		if err == nil && known[w.GetTemplate()] {
			err = errors.New("template: it is that of another buffer")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("buffer of template %q: %w", Sentence(w.GetTemplate(), MaxToken), err))
			continue
		}
		known[w.GetTemplate()] = true
		sound = append(sound, w)
	}
	return sound, errors.Join(errs...)
}

func checkBuffer(w *fleetv1.Buffer) error {
	c := &Checks{}
	c.Name("template", w.GetTemplate())
	c.Token("revision", w.GetRevision(), MaxToken)
	c.NotNegative("slots", int64(w.GetSlots()))
	c.AtMost("slots", int64(w.GetSlots()), maxBufferSlots)
	return c.Err
}
