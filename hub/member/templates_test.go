package member

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// In a large fleet the agents get new templates one after another. An agent that connects
// meanwhile has them already, and the sending ends with the hub.
func TestManyAgentsGetTemplatesOneAfterAnother(t *testing.T) {
	x := newFixture(t)
	x.sending.SetLimit(rate.Every(time.Hour))
	x.sending.SetBurst(2)
	peers := make([]*peer, 4)
	for i := range peers {
		uid := types.UID(fmt.Sprintf("uid-m%d", i))
		x.register(string(uid[4:]), uid)
		_, peers[i] = x.connect(uid, "i1")
	}
	set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser"}}}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := x.SetTemplates(ctx, set, nil); err == nil {
		t.Fatal("all agents have the templates at once")
	}
	sent := 0
	for _, p := range peers {
		sent += count(p.has(set))
	}
	x.Expect(sent).To(Equal(2))

	_, again := x.connect("uid-m3", "i1")
	x.Expect(again.has(set)).To(BeTrue(), "an agent that connects has them")
	before := len(again.templates)
	x.fleetLocked(func(m *member) { x.sendTemplates(m) }, "uid-m3")
	x.Expect(again.templates).To(HaveLen(before), "and they are not sent twice")
}

func (p *peer) has(set *fleetv1.TemplateSet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.templates) > 0 && p.templates[len(p.templates)-1] == set
}

func (x *fixture) fleetLocked(f func(*member), uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x.uids[uid])
}
