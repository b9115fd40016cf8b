package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

// earlier is the commit that is upgraded from, and downgraded to. It is replaced by hand once that
// version is no longer supported.
const earlier = "a2979934de2a4baf0595d3c59501e0cce38b47e1"

var _ = Describe("An upgrade", Serial, func() {
	It("from an earlier commit and back disturbs no session", func(ctx SpecContext) {
		old, current := releaseOf(ctx, earlier), fleet.Release()
		Expect(fleet.Load(ctx, []*kindfleet.Cluster{fleet.Hub}, old.HubImage)).To(Succeed())
		Expect(fleet.Load(ctx, fleet.Members, old.AgentImage)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { change(ctx, current, hubFirst) })

		before := sessionsOf(ctx, "current")
		since := time.Now()
		reportTime("downgrade to "+earlier[:7], change(ctx, old, agentsFirst))
		made := sessionsOf(ctx, "earlier")
		for _, s := range before {
			undisturbed(s, since)
		}
		madeAt := time.Now()
		reportTime("upgrade from "+earlier[:7], change(ctx, current, hubFirst))
		after := sessionsOf(ctx, "after")
		for _, s := range before {
			undisturbed(s, since)
		}
		for _, s := range made {
			undisturbed(s, madeAt)
		}
		for _, s := range append(append(before, made...), after...) {
			Expect(fleet.Hub.Client.Delete(ctx, s)).To(Succeed())
			Eventually(ctx, gone(s)).Should(BeTrue())
			nothingLeft(ctx, s)
		}
	})
})

// sessionsOf creates a session of each failover mode in each region, and waits until all run.
func sessionsOf(ctx context.Context, name string) []*v1alpha1.VDISession {
	GinkgoHelper()
	var made []*v1alpha1.VDISession
	for _, member := range fleet.Members {
		for template, mode := range map[string]v1alpha1.FailoverMode{sample: v1alpha1.FailoverRestart, sampleHome: v1alpha1.FailoverHold} {
			made = append(made, newSession(ctx, fmt.Sprintf("%s-%s-%s", name, template, member.Name), template, inRegion(member.Name), failing(mode)))
		}
		made = append(made, newSession(ctx, fmt.Sprintf("%s-fence-%s", name, member.Name), sample, inRegion(member.Name), failing(v1alpha1.FailoverFence)))
	}
	for _, s := range made {
		running(ctx, s, s.Spec.Placement.RequiredRegions[0])
	}
	return made
}

// Orders of a change: that of docs/operators.md for upgrades, and its reverse.
const (
	hubFirst    = true
	agentsFirst = false
)

// change changes hub and agents to a release, one after the other, and returns how long it took
// until all members were Ready again.
func change(ctx context.Context, to kindfleet.Release, hubIsFirst bool) time.Duration {
	GinkgoHelper()
	began := time.Now()
	if hubIsFirst {
		Expect(fleet.InstallHub(ctx, to)).To(Succeed())
	}
	for _, member := range fleet.Members {
		Expect(fleet.InstallAgent(ctx, member, to)).To(Succeed())
		Expect(fleet.WaitForMember(ctx, member.Name)).To(Succeed())
	}
	if !hubIsFirst {
		Expect(fleet.InstallHub(ctx, to)).To(Succeed())
	}
	for _, member := range fleet.Members {
		Eventually(ctx, ready(member.Name)).Should(BeTrue())
	}
	return time.Since(began)
}

// releaseOf builds the images of a commit of this repository, and takes its charts.
func releaseOf(ctx context.Context, commit string) kindfleet.Release {
	GinkgoHelper()
	tree := filepath.Join(GinkgoT().TempDir(), "tree")
	Expect(os.MkdirAll(tree, 0o755)).To(Succeed())
	r := kindfleet.Release{
		Charts: filepath.Join(tree, "deploy", "charts"), HubImage: "vdi-hub:" + commit[:12], AgentImage: "vdi-agent:" + commit[:12],
		AllNamespaces: true,
	}
	for _, line := range []string{
		fmt.Sprintf("git archive %s | tar -xC %s", commit, tree),
		fmt.Sprintf("make -C %s docker-build VERSION=%s HUB_IMG=%s AGENT_IMG=%s", tree, commit[:12], r.HubImage, r.AgentImage),
	} {
		sh := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
		sh.Dir = root
		sh.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
		out, err := sh.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
	}
	return r
}
