package link

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Results is the set of unsent answers, in the order in which they were added: of each
// session, the newest about its assignment and the newest about its withdrawal. It outlives
// streams: the answers hold whichever hub sent the order. It is pure and not safe for
// concurrent use.
type Results struct {
	unsent []*fleetv1.OrderResult
}

// NewResults returns an empty set.
func NewResults() *Results { return &Results{} }

// Add appends an answer, and removes an earlier one about the same. A stop also replaces the
// answer about the stopped assignment.
func (r *Results) Add(result *fleetv1.OrderResult) {
	r.unsent = slices.DeleteFunc(r.unsent, func(old *fleetv1.OrderResult) bool {
		return old.GetSessionUid() == result.GetSessionUid() && (ofWithdrawal(old) == ofWithdrawal(result) ||
			ofWithdrawal(result) && old.GetEpoch() <= result.GetEpoch() && ofStored(old))
	})
	r.unsent = append(r.unsent, result)
}

// Begin removes the acknowledgements of stored assignments at the beginning of a stream:
// they could contradict its inventory, which is newer.
func (r *Results) Begin() { r.unsent = slices.DeleteFunc(r.unsent, ofStored) }

func ofWithdrawal(r *fleetv1.OrderResult) bool { return r.GetSpecHash() == "" }

// ofStored reports whether a result acknowledges that an assignment was stored.
func ofStored(r *fleetv1.OrderResult) bool {
	return !ofWithdrawal(r) && r.GetCode() == fleetv1.ResultCode_RESULT_CODE_STORED
}

// Len returns the number of answers.
func (r *Results) Len() int { return len(r.unsent) }

// Next removes and returns the oldest answers, as many as a batch holds, or nil.
func (r *Results) Next() *fleetv1.ResultBatch {
	batch, bytes := &fleetv1.ResultBatch{}, 0
	for _, result := range r.unsent {
		result = bounded(result)
		size := proto.Size(result) + itemOverhead
		if len(batch.Items) == maxBatchItems || bytes+size > maxBatchBytes {
			break
		}
		batch.Items, bytes = append(batch.Items, result), bytes+size
	}
	if len(batch.Items) == 0 {
		return nil
	}
	r.unsent = slices.Delete(r.unsent, 0, len(batch.Items))
	return batch
}

// maxResultMessage is the most bytes of a result's message.
const maxResultMessage = 32 << 10

// bounded returns a result with a message of at most maxResultMessage.
func bounded(result *fleetv1.OrderResult) *fleetv1.OrderResult {
	if len(result.GetMessage()) <= maxResultMessage {
		return result
	}
	short := proto.Clone(result).(*fleetv1.OrderResult)
	short.Message = strings.ToValidUTF8(short.Message[:maxResultMessage], "") + "…"
	return short
}
