package identity

import (
	"errors"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// Reasons for which nothing is issued, as the metric has them.
const (
	refusedRequest        = "Request"
	refusedTokenMalformed = "TokenMalformed"
	refusedTokenUnknown   = "TokenUnknown"
	refusedTokenExpired   = "TokenExpired"
	refusedTokenUsed      = "TokenUsed"
	refusedTokenMember    = "TokenMember"
	refusedUnknownMember  = "UnknownMember"
	refusedRevoked        = "Revoked"
	refusedFingerprint    = "Fingerprint"
	refusedCertificate    = "Certificate"
	refusedKeyReused      = "KeyReused"
	refusedTrouble        = "Trouble"
)

// refusal is why nothing is issued. Its text is for the hub's log; what an agent
// is told is the link's to say, by the error that it wraps.
type refusal struct {
	reason string
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuse for a reason, with one of the link's errors and why.
func refuse(reason string, told error, why string, args ...any) error {
	return &refusal{reason: reason, err: fmt.Errorf("%w: %s", told, fmt.Sprintf(why, args...))}
}

// counted counts why a call failed.
func counted(err error) error {
	var r *refusal
	switch {
	case err == nil:
	case errors.As(err, &r):
		metricRefused.WithLabelValues(r.reason).Inc()
	case errors.Is(err, link.ErrUnknownMember):
		metricRefused.WithLabelValues(refusedUnknownMember).Inc()
	default:
		metricRefused.WithLabelValues(refusedTrouble).Inc()
	}
	return err
}
