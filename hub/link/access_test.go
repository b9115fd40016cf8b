package link_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// TestEveryCallByEveryCaller crosses all calls with all certificates, over TLS.
func TestEveryCallByEveryCaller(t *testing.T) {
	w := serve(t, nil)
	two := harness.AgentRequest("own")
	two.URIs = append(two.URIs, harness.AgentRequest("other").URIs...)
	elsewhere := harness.AgentRequest("own")
	elsewhere.URIs = []string{"spiffe://elsewhere.test/cluster/own/agent"}
	superseded := w.agent("superseded")
	current := w.agent("current")
	w.do(func() {
		w.standing["revoked"] = link.Access{Revoked: true, Serials: []string{}}
		w.standing["superseded"] = link.Access{Serials: []string{"1"}}
		w.standing["current"] = link.Access{Serials: []string{serial(current)}}
		w.standing["removing"] = link.Access{Removing: true}
		w.standing["deleted"] = link.Access{}
		delete(w.standing, "deleted")
	})
	unverified := map[string]codes.Code{"Connect": codes.Unavailable, "RenewLease": codes.Unavailable, "RotateCertificate": codes.Unavailable, "Enroll": codes.Unavailable}
	but := func(code codes.Code) map[string]codes.Code {
		return map[string]codes.Code{"Connect": code, "RenewLease": code, "RotateCertificate": code, "Enroll": codes.OK}
	}
	texts := map[string]map[string]string{}
	for name, tc := range map[string]struct {
		cert *tls.Certificate
		want map[string]codes.Code
	}{
		"own":              {w.agent("own"), but(codes.OK)},
		"own, by serial":   {current, but(codes.OK)},
		"being removed":    {w.agent("removing"), but(codes.OK)},
		"unknown":          {w.agent("unknown"), but(codes.PermissionDenied)},
		"deleted":          {w.agent("deleted"), but(codes.PermissionDenied)},
		"revoked":          {w.agent("revoked"), but(codes.PermissionDenied)},
		"superseded":       {superseded, but(codes.Unauthenticated)},
		"no certificate":   {nil, but(codes.Unauthenticated)},
		"two URI SANs":     {w.certificate(w.pki.CA, two), but(codes.PermissionDenied)},
		"the hub's own":    {w.certificate(w.pki.CA, harness.HubRequest()), but(codes.PermissionDenied)},
		"another domain":   {w.certificate(w.pki.CA, elsewhere), but(codes.PermissionDenied)},
		"another CA":       {w.certificate(w.otherCA, harness.AgentRequest("own")), unverified},
		"expired":          {w.certificate(w.pki.CA, harness.AgentRequest("own").Expired()), unverified},
		"expired, unknown": {w.certificate(w.pki.CA, harness.AgentRequest("unknown").Expired()), unverified},
		"another CA, not":  {w.certificate(w.otherCA, harness.AgentRequest("unknown")), unverified},
	} {
		texts[name] = map[string]string{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for call, do := range calls(ctx, w.client(tc.cert)) {
			err := do()
			if got := status.Code(err); got != tc.want[call] {
				t.Errorf("%s of %s: %v, want %s", call, name, err, tc.want[call])
			}
			texts[name][call] = status.Convert(err).Message()
		}
	}
	for call := range texts["own"] {
		if texts["unknown"][call] != texts["deleted"][call] {
			t.Errorf("%s: a deleted member's agent gets %q, an unknown one's %q", call, texts["deleted"][call], texts["unknown"][call])
		}
		if texts["two URI SANs"][call] != texts["another domain"][call] {
			t.Errorf("%s: %q and %q", call, texts["two URI SANs"][call], texts["another domain"][call])
		}
	}
	for _, uid := range []string{"unknown", "deleted", "revoked", "superseded", "other"} {
		w.do(func() {
			for _, opened := range w.opened {
				if string(opened) == uid {
					t.Errorf("the directory was called to open a stream of %s", uid)
				}
			}
		})
	}
}

// TestRequestsForAnotherMembersSessionAreAnsweredAsForNone sends each kind of message
// of sessions of its own, of another member's, of none, and of an epoch that
// is over, and compares what the hub answers byte by byte.
func TestRequestsForAnotherMembersSessionAreAnsweredAsForNone(t *testing.T) {
	w := serve(t, nil)
	answers := map[string]map[string][]byte{}
	subjects := map[string]struct {
		uid   string
		epoch int64
	}{"own": {"mine", 3}, "other": {"theirs", 3}, "unknown": {"none-at-all", 3}, "deleted": {"gone", 3}, "stale epoch": {"mine", 1}, "an epoch beyond any": {"mine", 1 << 60}}
	for subject, s := range subjects {
		answers[subject] = map[string][]byte{}
		for kind, message := range map[string]*fleetv1.ConnectRequest{
			"inventory": nil, // every stream begins with one
			"reports": {Message: &fleetv1.ConnectRequest_Reports{Reports: &fleetv1.ReportBatch{Sequence: 1, Items: []*fleetv1.AssignmentReport{
				{SessionUid: s.uid, Namespace: "n", Name: "s", Epoch: s.epoch, SpecHash: "h"}}}}},
			"results": {Message: &fleetv1.ConnectRequest_Results{Results: &fleetv1.ResultBatch{Items: []*fleetv1.OrderResult{
				{SessionUid: s.uid, Namespace: "n", Name: "s", Epoch: s.epoch, Code: fleetv1.ResultCode_RESULT_CODE_STOPPED}}}}},
			"capacity": {Message: &fleetv1.ConnectRequest_Capacity{Capacity: &fleetv1.CapacityReport{Sequence: 1, Templates: []*fleetv1.TemplateCapacity{{Name: s.uid}}}}},
		} {
			answers[subject][kind] = w.answers(t, s.uid, s.epoch, message)
		}
	}
	for subject, byKind := range answers {
		for kind, bytes := range byKind {
			if want := answers["unknown"][kind]; string(bytes) != string(want) {
				t.Errorf("%s of a session that is %s: %x, of one that is not: %x", kind, subject, bytes, want)
			}
		}
	}
}

// answers is all that the hub answers to an inventory and one message.
func (w *world) answers(t *testing.T, uid string, epoch int64, message *fleetv1.ConnectRequest) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := connect(ctx, w.client(w.agent("own")))
	if err != nil {
		t.Fatal(err)
	}
	send := func(m *fleetv1.ConnectRequest) {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_InventoryDigest{InventoryDigest: &fleetv1.InventoryDigest{}}})
	if answer, err := stream.Recv(); err != nil || answer.GetInventoryRequest() == nil {
		t.Fatalf("a digest is answered by %v, %v", answer, err)
	}
	send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Inventory{Inventory: &fleetv1.Inventory{Last: true, Items: []*fleetv1.AssignmentReport{
		{SessionUid: uid, Namespace: "n", Name: "s", Epoch: epoch, SpecHash: "h"}}}}})
	if message != nil {
		send(message)
	}
	// What is answered comes before this batch is acknowledged.
	last := message.GetReports().GetSequence() + 1
	send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Reports{Reports: &fleetv1.ReportBatch{Sequence: last}}})
	var all []byte
	for {
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if answer.GetReportAck().GetSequence() == last {
			return all
		}
		// Whether a batch is acknowledged with the one after it is chance.
		if answer.GetReportAck() == nil {
			if all, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(all, answer); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAStreamEndsWithTheRightToIt(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		renews bool
		want   codes.Code
	}{
		"its certificate expires":       {func(w *world) { w.ahead = 25 * time.Hour }, false, codes.Unauthenticated},
		"its member is revoked":         {func(w *world) { w.standing["own"] = link.Access{Revoked: true} }, false, codes.PermissionDenied},
		"its certificate is superseded": {func(w *world) { w.standing["own"] = link.Access{Serials: []string{"1"}} }, false, codes.Unauthenticated},
		"its member is deleted":         {func(w *world) { delete(w.standing, "own") }, false, codes.PermissionDenied},
		"its renewal is denied":         {func(w *world) { w.standing["own"] = link.Access{Revoked: true} }, true, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			g := patient(t)
			w := serve(t, func(o *link.Options) {
				if tc.renews {
					o.ReauthorizeInterval = time.Hour
				}
			})
			client := w.client(w.agent("own"))
			stream, err := connect(t.Context(), client)
			g.Expect(err).NotTo(HaveOccurred())
			w.do(func() { tc.change(w) })
			if tc.renews {
				_, err := client.RenewLease(t.Context(), &fleetv1.RenewLeaseRequest{Instance: "i"})
				g.Expect(status.Code(err)).To(Equal(tc.want))
			}
			ended := make(chan error, 1)
			go func() {
				_, err := stream.Recv()
				ended <- err
			}()
			g.Eventually(ended).Should(Receive(WithTransform(status.Code, Equal(tc.want))))
		})
	}
}

func TestAHubThatDoesNotLeadGrantsNothing(t *testing.T) {
	w := serve(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client := w.client(w.agent("own"))
	for call, do := range calls(ctx, client) {
		if err := do(); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	w.do(func() { w.following, w.duties = true, nil })
	for call, do := range calls(ctx, client) {
		if err := do(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), link.ErrNotLeading.Error()) {
			t.Errorf("%s: %v", call, err)
		}
	}
	w.do(func() {
		if w.enrolled != 1 || len(w.duties) != 0 {
			t.Errorf("%d were enrolled, and what was done is %v", w.enrolled, w.duties)
		}
	})
}

func TestACertificateIsRecordedAsUsedBeforeItIsAdmitted(t *testing.T) {
	w := serve(t, nil)
	cert := w.agent("own")
	if _, err := connect(t.Context(), w.client(cert)); err != nil {
		t.Fatal(err)
	}
	w.do(func() {
		if len(w.used) != 1 || w.used[0] != serial(cert) || strings.Join(w.duties, " ") != "used open" {
			t.Errorf("used %v, in the order %v", w.used, w.duties)
		}
		w.usedErr, w.opened = errors.New("etcd is on fire"), nil
	})
	_, err := connect(t.Context(), w.client(cert))
	if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "fire") {
		t.Errorf("%v", err)
	}
	if w.has("own") {
		t.Error("it was admitted nevertheless")
	}
}

func TestEnrollmentDisclosesNothingToAnUnauthenticatedCaller(t *testing.T) {
	w := serve(t, nil)
	client := w.client(nil)
	enroll := func(request *fleetv1.EnrollRequest) error {
		_, err := client.Enroll(t.Context(), request)
		return err
	}
	der := []byte("request")
	bad := enroll(&fleetv1.EnrollRequest{Token: "bad", CertificateRequest: der})
	long := enroll(&fleetv1.EnrollRequest{Token: strings.Repeat("x", 1000), CertificateRequest: der})
	if status.Code(bad) != codes.PermissionDenied || bad.Error() != long.Error() {
		t.Errorf("%v and %v", bad, long)
	}
	w.do(func() { w.enrollErr = errors.New(`secrets "join-abc" not found`) })
	if err := enroll(&fleetv1.EnrollRequest{Token: "good", CertificateRequest: der}); status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "join") {
		t.Errorf("%v", err)
	}
	before := 0
	w.do(func() { before = w.enrolled })
	if err := enroll(&fleetv1.EnrollRequest{Token: "good", CertificateRequest: make([]byte, 20<<10)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v", err)
	}
	if err := enroll(&fleetv1.EnrollRequest{Token: "good", CertificateRequest: make([]byte, 1<<20)}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	w.do(func() {
		if w.enrolled != before {
			t.Error("the authority was called for a request that is too large")
		}
	})
}

func TestAHubWithFilesIssuesNothing(t *testing.T) {
	w := serve(t, func(o *link.Options) { o.Authority = nil })
	for call, do := range calls(t.Context(), w.client(w.agent("own"))) {
		want := codes.OK
		if call == "Enroll" || call == "RotateCertificate" {
			want = codes.Unimplemented
		}
		if err := do(); status.Code(err) != want {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestAnAgentWithAnOldTrustBundleIsRequestedToRotate(t *testing.T) {
	w := serve(t, nil)
	client := w.client(w.agent("own"))
	for hash, want := range map[string]bool{"old": true, "new": false} {
		got, err := client.RenewLease(t.Context(), &fleetv1.RenewLeaseRequest{Instance: "i", TrustBundleHash: hash})
		if err != nil || got.GetRotateCertificate() != want {
			t.Errorf("%s: %v, %v", hash, got, err)
		}
	}
}

func TestCallsOfAMemberAreLimited(t *testing.T) {
	w := serve(t, func(o *link.Options) {
		o.Limits = link.Limits{RenewalsPerSecond: 1, StreamsPerMember: 2, EnrollmentsPerMinute: 3, ConnectionsPerMember: 4}
	})
	own := w.client(w.agent("own"))
	t.Run("renewals", func(t *testing.T) {
		last := error(nil)
		for range 20 {
			if _, err := own.RenewLease(t.Context(), &fleetv1.RenewLeaseRequest{Instance: "i"}); err != nil {
				last = err
			}
		}
		if status.Code(last) != codes.ResourceExhausted {
			t.Errorf("%v", last)
		}
	})
	t.Run("streams", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 2 {
			if _, err := connect(ctx, own); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := connect(ctx, own); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%v", err)
		}
	})
	t.Run("enrollments", func(t *testing.T) {
		last := error(nil)
		for range 5 {
			_, last = w.client(nil).Enroll(t.Context(), &fleetv1.EnrollRequest{Token: "good", CertificateRequest: []byte("r")})
		}
		if status.Code(last) != codes.ResourceExhausted {
			t.Errorf("%v", last)
		}
	})
	t.Run("a header", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("y", 64<<10))
		if _, err := w.client(nil).Enroll(ctx, &fleetv1.EnrollRequest{Token: "good", CertificateRequest: []byte("r")}); err == nil {
			t.Error("it was read")
		}
	})
	t.Run("a message", func(t *testing.T) {
		g := patient(t)
		var stream fleetv1.FleetService_ConnectClient
		g.Eventually(func() (err error) {
			stream, err = connect(t.Context(), own)
			return err
		}).Should(Succeed())
		_ = stream.Send(&fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Inventory{Inventory: &fleetv1.Inventory{
			Items: []*fleetv1.AssignmentReport{{Name: strings.Repeat("x", 5<<20)}}}}})
		if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%v", err)
		}
	})
	t.Run("connections", func(t *testing.T) {
		var ok, refused int
		for range 8 {
			conn, err := tls.Dial("tcp", w.address, w.tls(w.agent("own")))
			if err != nil {
				refused++
				continue
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			// In TLS 1.3 a client has secured hands before the server has: what it
			// reads first are the server's settings, or the end.
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				refused++
			} else {
				ok++
			}
		}
		if ok > 4 || ok == 0 || refused < 4 {
			t.Errorf("%d were admitted, %d refused", ok, refused)
		}
	})
}
