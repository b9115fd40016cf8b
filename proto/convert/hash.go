package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// hashLength in hex digits: 64 bits tell apart the few specs that one session
// ever has, and fit a label.
const hashLength = 16

// SpecHash is a hash of all of an assignment's spec but the proof, which says
// nothing of the desktop: what was stored before there were proofs is not sent
// again for the want of one. It is the same before
// and after the wire and any API server: quantities and durations count by
// value, and an empty list as none. Both ends must be of versions that know
// the same fields to come to the same hash, so compare one that came with an
// order to the one that is stored, and computed ones among themselves.
func SpecHash(spec *v1alpha1.SessionAssignmentSpec) string {
	wire := AssignmentToWire(&v1alpha1.SessionAssignment{
		// A hash is given so that none is computed in turn.
		ObjectMeta: metaFromWire("", "", "none"),
		Spec:       *spec,
	})
	wire.Proof = ""
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(wire)
	if err != nil {
		// Only a string that is not UTF-8 does this, which no API server holds.
		text = fmt.Append(nil, *spec)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:hashLength]
}
