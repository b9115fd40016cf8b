package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// rebalanceOptions limit which sessions are moved, and how many.
type rebalanceOptions struct {
	from, toRegion string
	most           int
	dryRun         bool
	timeout        time.Duration
}

func rebalanceCommand(c *cluster) *cobra.Command {
	var o rebalanceOptions
	cmd := &cobra.Command{
		Use: "rebalance", Short: "Move idle sessions to the members where they would be placed now", Args: cobra.NoArgs,
		Long: "Move idle sessions to the members where they would be placed now, if these are clearly better: a preferred\n" +
			"region or cluster, a member that accepts sessions while theirs does not, or one that is less loaded by a\n" +
			"tenth. A moved session is restarted there. Sessions with a home are not moved, nor are those whose desktops\n" +
			"do not report their activity. Use it for failback, which is not automatic. The hub moves each session as\n" +
			"capacity permits, and records an event (NotMoved) with the reason otherwise.",
		Example: "  kubectl vdi rebalance --dry-run\n  kubectl vdi rebalance --from us-east --to-region eu --max 50",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.rebalance(cmd, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "Member from which sessions are moved; by default any.")
	flags.StringVar(&o.toRegion, "to-region", "", "Region to which sessions are moved; by default any.")
	flags.IntVar(&o.most, "max", 20, "Maximum number of sessions to move.")
	flags.BoolVar(&o.dryRun, "dry-run", false, "If true, only print the moves.")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Second, "Maximum time to wait for the hub's answer about one session.")
	return cmd
}

// rebalance requests a review for each session that may move, and moves those for which
// another member is clearly better.
func (c *cluster) rebalance(cmd *cobra.Command, o rebalanceOptions) error {
	if o.most < 1 {
		return fmt.Errorf("--max %d is less than 1", o.most)
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	idle, err := idleSessions(ctx, api, o.from)
	if err != nil {
		return err
	}
	moves, err := c.selectMoves(ctx, api, idle, o)
	if err != nil {
		return err
	}
	for i := range moves {
		if o.dryRun {
			break
		}
		if err := requestMove(ctx, api, moves[i].session); err != nil {
			return err
		}
	}
	result := map[string]any{"idle": len(idle), "moves": moves, "dryRun": o.dryRun}
	return c.printResult(cmd.OutOrStdout(), result, movesText(moves, len(idle), o, time.Now()))
}

// idleSessions returns the sessions that a rebalance may move, the longest idle first.
func idleSessions(ctx context.Context, api client.Client, from string) ([]*v1alpha1.VDISession, error) {
	list := &v1alpha1.VDISessionList{}
	var options []client.ListOption
	if from != "" {
		options = append(options, client.MatchingFields{"status.placement.clusterName": from})
	}
	if err := api.List(ctx, list, options...); err != nil {
		return nil, explain(err, "listing the sessions")
	}
	var out []*v1alpha1.VDISession
	for i := range list.Items {
		if s := &list.Items[i]; mayMove(s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.VDISession) int {
		return cmp.Or(a.Status.IdleSince.Compare(b.Status.IdleSince.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// mayMove reports whether a session runs, is idle, and has no home.
func mayMove(s *v1alpha1.VDISession) bool {
	_, requested := s.Annotations[v1alpha1.AnnotationMove]
	return s.DeletionTimestamp.IsZero() && s.Status.Phase == v1alpha1.PhaseRunning && s.Status.Placement != nil &&
		!s.Status.Placement.Idle && s.Status.IdleSince != nil && s.Status.Home == nil && !requested
}

// selectMoves requests reviews, and returns the moves. If a session stays, so do all with equal
// reviews.
func (c *cluster) selectMoves(ctx context.Context, api client.WithWatch, idle []*v1alpha1.VDISession, o rebalanceOptions) ([]move, error) {
	b, stay := newBalance(), map[string]bool{}
	moves := []move{}
	for _, s := range idle {
		key := equivalenceKey(s)
		if len(moves) == o.most || stay[key] {
			continue
		}
		review := &v1alpha1.PlacementReview{Spec: v1alpha1.PlacementReviewSpec{SessionName: s.Name, Count: 1}}
		review.Namespace, review.GenerateName = s.Namespace, "rebalance-"
		if err := c.review(ctx, api, review, o.timeout); err != nil {
			return nil, err
		}
		m, better := b.better(s.Status.Placement.ClusterName, review.Status.Clusters, o.toRegion)
		if !better {
			stay[key] = true
			continue
		}
		m.session, m.Session, m.User, m.IdleSince = s, s.Namespace+"/"+s.Name, s.Spec.User, *s.Status.IdleSince
		moves = append(moves, m)
	}
	return moves, nil
}

// equivalenceKey returns the same key for sessions with equal reviews.
func equivalenceKey(s *v1alpha1.VDISession) string {
	return fmt.Sprintf("%q %q %q %q %v %+v %v", s.Namespace, s.Spec.Template, s.Status.TemplateRevision, s.Status.Placement.ClusterName,
		s.Status.Resources, s.Spec.Placement, s.Labels)
}

// requestMove requests a session's move, if the session has not changed since it was read.
func requestMove(ctx context.Context, api client.Client, s *v1alpha1.VDISession) error {
	before := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationMove, s.Status.Placement.ClusterName)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := api.Patch(ctx, s, patch); err != nil {
		return explain(err, fmt.Sprintf("requesting the move of session %s/%s (run it again for the remaining ones)", s.Namespace, s.Name))
	}
	return nil
}

func movesText(moves []move, idle int, o rebalanceOptions, now time.Time) string {
	if len(moves) == 0 {
		return fmt.Sprintf("Nothing to move: of %d idle sessions without a home, none has a clearly better member.", idle)
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "SESSION\tUSER\tFROM\tTO\tIDLE\tWHY")
	for _, m := range moves {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Session, cell(m.User), m.From, m.To, now.Sub(m.IdleSince.Time).Round(time.Second), cell(m.Why))
	}
	table.Flush() //nolint:errcheck // a strings.Builder never fails
	if o.dryRun {
		fmt.Fprintf(&b, "Nothing was moved (dry run): %d would be moved without --dry-run.", len(moves))
	} else {
		fmt.Fprintf(&b, "Requested the move of %d.", len(moves))
	}
	return b.String()
}
