package link

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// resultKey identifies an answer: of each session, only the newest about its assignment and
// the newest about its withdrawal are kept.
type resultKey struct {
	uid        string
	withdrawal bool
}

// Results is the set of unsent answers, in the order in which they were added. It outlives
// streams: the answers hold whichever hub sent the order. It is pure and not safe for
// concurrent use.
type Results struct {
	newest map[resultKey]*fleetv1.OrderResult
	order  []resultKey
}

// NewResults returns an empty set.
func NewResults() *Results {
	return &Results{newest: map[resultKey]*fleetv1.OrderResult{}}
}

// Add appends an answer, and removes an earlier one with the same key. A stop also replaces
// the answer about the stopped assignment.
func (r *Results) Add(result *fleetv1.OrderResult) {
	key := resultKey{uid: result.GetSessionUid(), withdrawal: result.GetSpecHash() == ""}
	r.drop(key)
	assignment := resultKey{uid: key.uid}
	if old := r.newest[assignment]; key.withdrawal && old != nil && old.GetEpoch() <= result.GetEpoch() &&
		old.GetCode() == fleetv1.ResultCode_RESULT_CODE_STORED {
		r.drop(assignment)
	}
	r.newest[key] = result
	r.order = append(r.order, key)
}

// Begin removes the acknowledgements of stored assignments at the beginning of a stream:
// they could contradict its inventory, which is newer.
func (r *Results) Begin() {
	for _, key := range slices.Clone(r.order) {
		if !key.withdrawal && r.newest[key].GetCode() == fleetv1.ResultCode_RESULT_CODE_STORED {
			r.drop(key)
		}
	}
}

func (r *Results) drop(key resultKey) {
	if _, known := r.newest[key]; !known {
		return
	}
	delete(r.newest, key)
	r.order = slices.DeleteFunc(r.order, func(k resultKey) bool { return k == key })
}

// Len returns the number of answers.
func (r *Results) Len() int { return len(r.order) }

// Next removes and returns the oldest answers, as many as a batch holds, or nil.
func (r *Results) Next() *fleetv1.ResultBatch {
	batch, bytes := &fleetv1.ResultBatch{}, 0
	for _, key := range r.order {
		result := bounded(r.newest[key])
		size := proto.Size(result) + itemOverhead
		if len(batch.Items) == maxBatchItems || bytes+size > maxBatchBytes {
			break
		}
		batch.Items, bytes = append(batch.Items, result), bytes+size
		delete(r.newest, key)
	}
	r.order = r.order[len(batch.Items):]
	if len(batch.Items) == 0 {
		return nil
	}
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
