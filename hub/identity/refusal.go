package identity

import (
	"errors"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// Reasons of refusals in the metric.
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

// refusal is the error for a request that is refused. Its text is for the hub's log; the
// link sends the agent the text of the error that it wraps.
type refusal struct {
	reason string
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuse returns a refusal that wraps one of the link's errors.
func refuse(reason string, linkError error, why string, args ...any) error {
	return &refusal{reason: reason, err: fmt.Errorf("%w: %s", linkError, fmt.Sprintf(why, args...))}
}

// counted counts the error of a call by its reason.
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
