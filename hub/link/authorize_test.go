package link

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var methods = []string{
	fleetv1.FleetService_Connect_FullMethodName, fleetv1.FleetService_RenewLease_FullMethodName,
	fleetv1.FleetService_RotateCertificate_FullMethodName, fleetv1.FleetService_Enroll_FullMethodName,
}

// TestEveryMethodIsDecidedForEveryCaller crosses all methods with all that may
// be wrong with the caller. Enroll has no caller: it checks the token.
func TestEveryMethodIsDecidedForEveryCaller(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	caller := func(serial string, left time.Duration) *Caller {
		return &Caller{Member: "m", Serial: serial, NotAfter: now.Add(left)}
	}
	allowed := Access{Serials: []string{"1", "2"}}
	for name, tc := range map[string]struct {
		caller   *Caller
		standing Access
		known    bool
		want     error
	}{
		"its own":                     {caller("1", time.Hour), allowed, true, nil},
		"its own, the next":           {caller("2", time.Hour), allowed, true, nil},
		"of an authority elsewhere":   {caller("9", time.Hour), Access{}, true, nil},
		"being removed":               {caller("1", time.Hour), Access{Removing: true, Serials: []string{"1"}}, true, nil},
		"no certificate":              {nil, Access{}, false, errNoCertificate},
		"no certificate, known":       {nil, allowed, true, errNoCertificate},
		"a certificate of no member":  {&Caller{Serial: "1", NotAfter: now.Add(time.Hour)}, allowed, true, errNoCertificate},
		"an unknown member":           {caller("1", time.Hour), Access{}, false, ErrUnknownMember},
		"a deleted member":            {caller("1", time.Hour), allowed, false, ErrUnknownMember},
		"superseded":                  {caller("0", time.Hour), allowed, true, ErrCertificate},
		"no serial is valid":          {caller("1", time.Hour), Access{Serials: []string{}}, true, ErrCertificate},
		"expired":                     {caller("1", -time.Hour), allowed, true, ErrCertificate},
		"expired this instant":        {caller("1", 0), allowed, true, ErrCertificate},
		"expired, of an unknown one":  {caller("1", -time.Hour), Access{}, false, ErrCertificate},
		"expired, of a revoked one":   {caller("1", -time.Hour), Access{Revoked: true}, true, ErrCertificate},
		"revoked":                     {caller("1", time.Hour), Access{Revoked: true, Serials: []string{"1"}}, true, ErrRevoked},
		"revoked, no serial is valid": {caller("1", time.Hour), Access{Revoked: true, Serials: []string{}}, true, ErrRevoked},
		"revoked, and being removed":  {caller("1", time.Hour), Access{Revoked: true, Removing: true}, true, ErrRevoked},
	} {
		for _, method := range methods {
			t.Run(name+method, func(t *testing.T) {
				want := tc.want
				if method == fleetv1.FleetService_Enroll_FullMethodName {
					want = nil
				}
				if err := authorize(method, tc.caller, tc.standing, tc.known, now); !errors.Is(err, want) || (want == nil) != (err == nil) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		}
		t.Run(name+" any other method", func(t *testing.T) {
			for _, method := range []string{"", "/", "/vdi.fleet.v1.FleetService/Forget", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/vdi.fleet.v1.fleetservice/Enroll"} {
				if err := authorize(method, tc.caller, tc.standing, tc.known, now); !errors.Is(err, errMethod) {
					t.Errorf("%s: %v", method, err)
				}
			}
		})
	}
}

func TestEveryMethodThatIsServedHasARule(t *testing.T) {
	served := map[string]bool{}
	for _, m := range fleetv1.FleetService_ServiceDesc.Methods {
		served["/"+fleetv1.FleetService_ServiceDesc.ServiceName+"/"+m.MethodName] = true
	}
	for _, s := range fleetv1.FleetService_ServiceDesc.Streams {
		served["/"+fleetv1.FleetService_ServiceDesc.ServiceName+"/"+s.StreamName] = true
	}
	for method := range served {
		if rules[method].name == "" {
			t.Errorf("%s has no rule: no caller can use it", method)
		}
	}
	for method, r := range rules {
		if !served[method] {
			t.Errorf("the rule of %s is of nothing", method)
		}
		if r.public && method != fleetv1.FleetService_Enroll_FullMethodName {
			t.Errorf("%s is public", method)
		}
	}
}

// TestARefusalDisclosesItsClassOnly: the text is the same for all of a
// class, whatever is in the log.
func TestARefusalDisclosesItsClassOnly(t *testing.T) {
	now := time.Now()
	expired := &Caller{Member: "m", Serial: "1", NotAfter: now}
	superseded := &Caller{Member: "m", Serial: "1", NotAfter: now.Add(time.Hour)}
	method := fleetv1.FleetService_RenewLease_FullMethodName
	same := func(name string, errs ...error) {
		t.Helper()
		for _, err := range errs {
			if got, want := statusOf(err), statusOf(errs[0]); got.Error() != want.Error() {
				t.Errorf("%s: %v and %v", name, got, want)
			}
		}
	}
	same("a certificate", authorize(method, expired, Access{}, false, now), authorize(method, expired, Access{Revoked: true}, true, now),
		authorize(method, superseded, Access{Serials: []string{"2"}}, true, now))
	_, two := memberOf(certificate(t, AgentURI("a", "m"), AgentURI("a", "n")), "a")
	_, none := memberOf(certificate(t), "a")
	_, elsewhere := memberOf(certificate(t, AgentURI("b", "m")), "a")
	same("an identity", two, none, elsewhere)
	same("an authority's trouble", ofAuthority(errors.New("secrets \"join-x\" is forbidden")), ofAuthority(errors.New("no route")))
	if text := status.Convert(statusOf(elsewhere)).Message(); text != errIdentity.Error() {
		t.Errorf("an unauthenticated caller gets %q", text)
	}
}

func TestARefusalForGoodEndsTheStreamsOfThatCertificateAlone(t *testing.T) {
	for err, want := range map[error]bool{
		ErrRevoked: true, ErrCertificate: true, ErrUnknownMember: true,
		ErrNotConnected: false, ErrNotLeading: false, errLimited: false, ErrAlreadyConnected: false,
	} {
		s := NewServer(Options{}, nil)
		open := func(member types.UID, serial string) *connection {
			c := &connection{caller: Caller{Member: member, Serial: serial}}
			c.ended, c.end = context.WithCancelCause(t.Context())
			s.connections.add(c)
			return c
		}
		same, renewed, other := open("m", "1"), open("m", "2"), open("n", "1")
		_ = s.authorizer.denied(fleetv1.FleetService_RenewLease_FullMethodName, &Caller{Member: "m", Serial: "1"}, "", err)
		if ended := same.ended.Err() != nil; ended != want || renewed.ended.Err() != nil || other.ended.Err() != nil {
			t.Errorf("%v: ended are %t of the same certificate, %v of the next, %v of another member", err, ended, renewed.ended.Err(), other.ended.Err())
		}
	}
}

// TestAHubThatLosesItsLeadMeanwhileGrantsNothing loses it in the handler.
func TestAHubThatLosesItsLeadMeanwhileGrantsNothing(t *testing.T) {
	leading := true
	s := NewServer(Options{Leading: func() bool { return leading }}, nil)
	ctx := grpc.NewContextWithServerTransportStream(t.Context(), uncompressedStream{})
	granting := func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		leading = false
		return "granted", nil
	}
	response, err := s.authorizer.unary(fleetv1.FleetService_Enroll_FullMethodName, granting)(s, ctx, nil, nil)
	if response != nil || status.Code(err) != codes.Unavailable {
		t.Errorf("%v, %v", response, err)
	}
}
