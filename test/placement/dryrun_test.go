package placement

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

var _ = Describe("A dry run", func() {
	It("reports where one and a hundred would be placed, which is where they are placed, and creates nothing", func(ctx SpecContext) {
		p := newPool("dry")
		p.add(ctx, eu, pieces("30500m", "15500m", "500m", "500m")...)
		p.add(ctx, us, pieces("10500m", "10500m", "10500m", "1500m")...)
		p.add(ctx, ap, pieces("12500m", "5500m", "500m")...)
		p.churn()
		desktop := p.template(ctx, "dry")
		for name, n := range map[string]int{eu: 45, us: 31, ap: 17} {
			Eventually(ctx, slots(name, desktop)).Should(BeEquivalentTo(n), name)
		}

		By("requesting one")
		text := explain(ctx, "--template", desktop, "--user", "ann@example.com")
		Expect(text).To(And(HavePrefix("A session like this would be placed in "+eu+" now."), ContainSubstring("CAPACITY AGE")))
		one := explained(ctx, "--template", desktop, "--user", "ann@example.com")
		Expect(one.Status.Placed).To(BeEquivalentTo(1))
		Expect(verdictOn(one, eu)).To(And(HaveField("Fits", true), HaveField("Rank", BeEquivalentTo(1)), HaveField("Slots", BeEquivalentTo(45))))
		Expect(verdictOn(one, eu).CapacityAge).NotTo(BeEmpty())
		Expect(verdictOn(one, eu).Scores).NotTo(BeEmpty())

		By("requesting a hundred, of which not all fit")
		hundred := explained(ctx, "--template", desktop, "--user", "ann@example.com", "--count", "100", "--distinct-users")
		Expect(hundred.Status.Placed).To(BeEquivalentTo(93))
		Expect(hundred.Status.Waiting).To(BeEquivalentTo(7))
		Expect(hundred.Status.Message).To(ContainSubstring("last capacity"))
		half := explained(ctx, "--template", desktop, "--user", "ann@example.com", "--count", "50", "--distinct-users")
		Expect(half.Status.Placed).To(BeEquivalentTo(50))
		Expect(nothing(ctx)).To(BeEmpty())

		By("creating fifty, and fifty more")
		createAll(ctx, many(50, "dry", desktop))
		Eventually(ctx, seen.count(running)).Should(Equal(50))
		// Until a report shows a Pod's node it is charged to every bucket that the node
		// may be in, so that scores differ a little from the dry run's.
		for _, m := range fleet.Members {
			Expect(seen.where()[m.Name]).To(BeNumerically("~", verdictOn(half, m.Name).Sessions, 3), "of fifty in %s; %v", m.Name, seen.where())
		}
		createAll(ctx, many(50, "drier", desktop))
		Eventually(ctx, seen.count(running)).Should(Equal(93))
		Eventually(ctx, seen.count(waits)).Should(Equal(7))
		for _, m := range fleet.Members {
			Expect(seen.where()[m.Name]).To(BeEquivalentTo(verdictOn(hundred, m.Name).Sessions), "of a hundred in %s; %v", m.Name, seen.where())
		}
	}, SpecTimeout(specTimeout))
})

// explain runs kubectl vdi explain in team-a, as the hub's administrator.
func explain(ctx context.Context, args ...string) string {
	GinkgoHelper()
	root, err := harness.Root()
	Expect(err).NotTo(HaveOccurred())
	args = append([]string{"explain", "--kubeconfig", fleet.Hub.ControlPlane.Kubeconfig, "-n", teamA}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-vdi"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	Expect(cmd.Run()).To(Succeed(), stderr.String())
	return stdout.String()
}

func explained(ctx context.Context, args ...string) *v1alpha1.PlacementReview {
	GinkgoHelper()
	review := &v1alpha1.PlacementReview{}
	Expect(json.Unmarshal([]byte(explain(ctx, append(args, "-o", "json")...)), review)).To(Succeed())
	return review
}

func verdictOn(review *v1alpha1.PlacementReview, member string) v1alpha1.ClusterVerdict {
	GinkgoHelper()
	for _, c := range review.Status.Clusters {
		if c.ClusterName == member {
			return c
		}
	}
	Fail("no verdict on " + member)
	return v1alpha1.ClusterVerdict{}
}

// nothing returns what a dry run has left: sessions, assignments and reviews.
func nothing(ctx context.Context) ([]string, error) {
	var out []string
	sessions, reviews := &v1alpha1.VDISessionList{}, &v1alpha1.PlacementReviewList{}
	if err := hub.List(ctx, sessions); err != nil {
		return nil, err
	}
	if err := hub.List(ctx, reviews); err != nil {
		return nil, err
	}
	for i := range sessions.Items {
		out = append(out, "session "+sessions.Items[i].Name)
	}
	for i := range reviews.Items {
		out = append(out, "review "+reviews.Items[i].Name)
	}
	for _, m := range fleet.Members {
		held, err := assignmentsIn(ctx, m.Name)
		if err != nil {
			return nil, err
		}
		if len(held) > 0 {
			out = append(out, fmt.Sprintf("%d assignments in %s", len(held), m.Name))
		}
	}
	return out, nil
}
