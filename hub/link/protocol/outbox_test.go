package protocol

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var start = time.Unix(1000, 0)

func assign(uid string, epoch int64, hash string) Order {
	a := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: uid,
		Annotations: map[string]string{v1alpha1.AnnotationSpecHash: hash}}}
	a.Spec.Session.UID, a.Spec.Epoch = types.UID(uid), epoch
	return Order{Assign: a}
}

func withdraw(uid string, upTo int64) Order {
	return Order{Withdraw: &fleetv1.Withdrawal{SessionUid: uid, Namespace: "desks", Name: uid, UpToEpoch: upTo}}
}

func result(uid string, epoch int64, hash string, code Code) Result {
	return Result{SessionUID: types.UID(uid), Epoch: epoch, SpecHash: hash, Code: code}
}

// summary is a batch in short.
func summary(batch []*fleetv1.Order) string {
	var out []string
	for _, order := range batch {
		if a := order.GetAssign(); a != nil {
			out = append(out, fmt.Sprintf("assign %s e%d %s", a.SessionUid, a.Epoch, a.SpecHash))
		} else {
			out = append(out, fmt.Sprintf("withdraw %s e%d", order.GetWithdraw().SessionUid, order.GetWithdraw().UpToEpoch))
		}
	}
	return strings.Join(out, ", ")
}

func TestOutbox(t *testing.T) {
	type step func(*Outbox) string
	put := func(orders ...Order) step {
		return func(o *Outbox) string {
			for _, order := range orders {
				o.Put(order)
			}
			return ""
		}
	}
	next := func(o *Outbox) string { return summary(o.Next(start)) }
	resend := func(before time.Time) step { return func(o *Outbox) string { o.Resend(before); return "" } }
	settle := func(r Result) step { return func(o *Outbox) string { o.Resolve(r); return "" } }
	left := func(o *Outbox) string { return fmt.Sprint(o.Len()) }

	for name, tc := range map[string]struct {
		steps []step
		want  []string
	}{
		"sends what was put, once": {
			[]step{put(assign("a", 1, "h")), next, next}, []string{"assign a e1 h", ""}},
		"does not resend what is in flight": {
			[]step{put(assign("a", 1, "h")), next, put(assign("a", 1, "h")), next}, []string{"assign a e1 h", ""}},
		"sends another spec of the same epoch": {
			[]step{put(assign("a", 1, "h")), next, put(assign("a", 1, "i")), next}, []string{"assign a e1 h", "assign a e1 i"}},
		"the newest wins before it is sent": {
			[]step{put(assign("a", 1, "h"), assign("a", 1, "i"), assign("a", 2, "j")), next}, []string{"assign a e2 j"}},
		"an older epoch does not win": {
			[]step{put(assign("a", 2, "j"), assign("a", 1, "h")), next}, []string{"assign a e2 j"}},
		"a withdrawal replaces the assignment": {
			[]step{put(assign("a", 1, "h"), withdraw("a", 1)), next}, []string{"withdraw a e1"}},
		"a withdrawn epoch is not assigned": {
			[]step{put(withdraw("a", 1), assign("a", 1, "h")), next}, []string{"withdraw a e1"}},
		"a withdrawal and the next epoch both go, in this order": {
			[]step{put(assign("a", 2, "j"), withdraw("a", 1)), next}, []string{"withdraw a e1, assign a e2 j"}},
		"a result settles its order alone": {
			[]step{put(withdraw("a", 1), assign("a", 2, "j")), next, settle(result("a", 2, "j", Stored)), left,
				settle(result("a", 1, "", Stored)), left, settle(result("a", 1, "", Stopped)), left},
			[]string{"withdraw a e1, assign a e2 j", "1", "1", "0"}},
		"a refusal settles": {
			[]step{put(assign("a", 1, "h")), next, settle(result("a", 1, "h", Refused)), left}, []string{"assign a e1 h", "0"}},
		"a late result of another spec settles nothing": {
			[]step{put(assign("a", 1, "h")), next, put(assign("a", 1, "i")), next, settle(result("a", 1, "h", Stored)), left},
			[]string{"assign a e1 h", "assign a e1 i", "1"}},
		"a result of an order that was not sent settles nothing": {
			[]step{put(assign("a", 1, "h")), settle(result("a", 1, "h", Stored)), next}, []string{"assign a e1 h"}},
		"an older epoch's stop does not settle a withdrawal": {
			[]step{put(withdraw("a", 3)), next, settle(result("a", 2, "", Stopped)), left}, []string{"withdraw a e3", "1"}},
		"a stop without an order settles the assignment in flight": {
			[]step{put(assign("a", 1, "h")), next, settle(result("a", 1, "", Stopped)), left}, []string{"assign a e1 h", "0"}},
		"an order without a result is sent again after a while": {
			[]step{put(withdraw("a", 1), assign("a", 2, "j")), next, resend(start), next, resend(start.Add(1)), next, next},
			[]string{"withdraw a e1, assign a e2 j", "withdraw a e1, assign a e2 j"}},
		"what has its result is not sent again": {
			[]step{put(assign("a", 1, "h")), next, settle(result("a", 1, "h", Stored)), resend(start.Add(1)), next, left},
			[]string{"assign a e1 h", "0"}},
		"may be put again after its result": {
			[]step{put(assign("a", 1, "h")), next, settle(result("a", 1, "h", Stored)), put(assign("a", 1, "h")), next},
			[]string{"assign a e1 h", "assign a e1 h"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOutbox()
			var got []string
			for i, s := range tc.steps {
				text := s(o)
				if text != "" || len(got) < len(tc.want) && tc.want[len(got)] == "" && i == len(tc.steps)-1 {
					got = append(got, text)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutboxBoundsItsBatches(t *testing.T) {
	o := NewOutbox()
	for i := range 3 * maxBatchItems {
		o.Put(assign(fmt.Sprintf("s%04d", i), 1, "h"))
	}
	if n := len(o.Next(start)); n != maxBatchItems {
		t.Errorf("a batch of %d items, want %d", n, maxBatchItems)
	}
	large := NewOutbox()
	for i := range 8 {
		order := assign(fmt.Sprint(i), 1, "h")
		order.Assign.Spec.Desktop.Image = strings.Repeat("x", maxBatchBytes/3)
		large.Put(order)
	}
	sent := 0
	for batch := large.Next(start); batch != nil; batch = large.Next(start) {
		if n := proto.Size(&fleetv1.OrderBatch{Sequence: 1 << 60, Items: batch}); n > maxBatchBytes {
			t.Errorf("a batch of %d bytes, at most %d", n, maxBatchBytes)
		}
		sent += len(batch)
	}
	if sent != 8 || len(large.dirty) != 0 {
		t.Errorf("%d sent, %d unsent, want all 8", sent, len(large.dirty))
	}
}

func TestOutboxRefusesWhatNoBatchHolds(t *testing.T) {
	o := NewOutbox()
	huge := assign("a", 2, "h")
	huge.Assign.Spec.Desktop.Image = strings.Repeat("x", maxBatchBytes)
	o.Put(huge)
	o.Put(withdraw("a", 1))
	o.Put(assign("b", 1, "h"))
	if diff := cmp.Diff("withdraw a e1, assign b e1 h", summary(o.Next(start))); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	refused := o.Refused()
	if len(refused) != 1 || refused[0].SessionUID != "a" || refused[0].Epoch != 2 || refused[0].SpecHash != "h" ||
		refused[0].Code != Refused || refused[0].Reason != v1alpha1.RefusedInvalid {
		t.Errorf("refused %+v", refused)
	}
	if o.Refused() != nil || o.Len() != 2 {
		t.Errorf("refused again, or %d sessions are kept, want 2", o.Len())
	}
}
