package link_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// An incompatible agent is reported by its certificate's
// identity, in a message that ends with what to upgrade, however long its names.
func TestTheDirectoryIsNotifiedOfAnIncompatibleAgent(t *testing.T) {
	long := strings.Repeat("w", 128)
	for name, c := range map[string]struct {
		change  func(*fleetv1.Hello)
		want    error
		message string
	}{
		"newer than the hub":       {func(h *fleetv1.Hello) { h.MinProtocol, h.MaxProtocol = math.MaxInt32, math.MaxInt32 }, protocol.ErrVersion, "upgrade the hub"},
		"older than the hub":       {func(h *fleetv1.Hello) { h.MinProtocol, h.MaxProtocol = math.MinInt32, 0 }, protocol.ErrVersion, "upgrade the agent"},
		"it requires more":         {func(h *fleetv1.Hello) { h.RequiredCapabilities = []string{"links", long} }, protocol.ErrCapability, "upgrade the hub"},
		"it lacks something":       {func(h *fleetv1.Hello) { h.Capabilities = nil }, protocol.ErrCapability, "upgrade the agent"},
		"it is compatible":         {func(*fleetv1.Hello) {}, nil, ""},
		"its versions are invalid": {func(h *fleetv1.Hello) { h.MinProtocol, h.MaxProtocol = 2, 1 }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := serve(t, func(o *link.Options) {
				o.Tuning.Capabilities, o.Tuning.RequiredCapabilities = []string{"links"}, []string{"links"}
			})
			first := hello()
			first.GetHello().AgentVersion, first.GetHello().Capabilities = long, []string{"links"}
			c.change(first.GetHello())
			err := w.helloResult(t, "own", first)
			if c.want == nil {
				w.do(func() { g.Expect(w.refused).To(BeEmpty()) })
				return
			}
			g.Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
			g.Expect(err).To(MatchError(HaveSuffix(c.message)))
			w.do(func() {
				g.Expect(w.refused).To(HaveKeyWithValue(types.UID("own"), MatchError(c.want)))
				g.Expect(w.refused["own"].Error()).To(HaveSuffix(c.message))
				g.Expect(len(w.refused["own"].Error())).To(BeNumerically("<=", 200), "or a condition cuts off the remedy")
				g.Expect(w.opened).To(BeEmpty())
			})
		})
	}
}

func TestTheDirectoryIsNotNotifiedOfAnUnauthorizedAgent(t *testing.T) {
	g := NewWithT(t)
	w := serve(t, nil)
	w.do(func() { w.standing["own"] = link.Access{Revoked: true} })
	first := hello()
	first.GetHello().MinProtocol, first.GetHello().MaxProtocol = 9, 9
	for _, uid := range []string{"own", "unknown"} {
		g.Expect(status.Code(w.helloResult(t, uid, first))).To(Equal(codes.PermissionDenied), uid)
	}
	w.do(func() { g.Expect(w.refused).To(BeEmpty()) })
}

// helloResult returns how the hub answers the first message: nil is a welcome.
func (w *world) helloResult(t *testing.T, uid string, first *fleetv1.ConnectRequest) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := w.client(w.agent(uid)).Connect(ctx)
	if err != nil {
		return err
	}
	_ = stream.Send(first) // the cause is in the error of Recv
	answer, err := stream.Recv()
	if err == nil && answer.GetWelcome() == nil {
		err = errors.New("the first message is no welcome")
	}
	return err
}
