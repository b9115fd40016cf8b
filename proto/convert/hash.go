package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// hashLength in hex digits: 64 bits distinguish the few specs that one session ever has,
// and fit a label.
const hashLength = 16

// SpecHash returns a hash of an assignment's spec without the proof, which does not affect the
// desktop: what was stored before there were proofs is not sent again. It is the same before
// and after the wire and any API server: quantities and durations count by value, and an empty
// list as none. Both ends compute the same hash only if their versions have the same fields, so
// compare the hash of an order to the stored one, and computed ones among themselves.
func SpecHash(spec *v1alpha1.SessionAssignmentSpec) string {
	wire := AssignmentToWire(&v1alpha1.SessionAssignment{
		// With a hash, AssignmentToWire does not compute one.
		ObjectMeta: metaFromWire("", "", "none"),
		Spec:       *spec,
	})
	wire.Proof = ""
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(wire)
	if err != nil {
		// Only a string that is not UTF-8 fails, which no API server stores.
		text = fmt.Append(nil, *spec)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:hashLength]
}
