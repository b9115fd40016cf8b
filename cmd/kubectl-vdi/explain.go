package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// deleteTimeout limits the deletion of a review; the hub deletes remaining ones.
const deleteTimeout = 5 * time.Second

// explainOptions are the options of a review, and the timeout of its result.
type explainOptions struct {
	namespace string
	session   v1alpha1.SessionSpec
	resources map[string]string
	labels    map[string]string
	count     int32
	distinct  bool
	timeout   time.Duration
}

// sessionFlags are the flags of a hypothetical session.
var sessionFlags = []string{"template", "user", "groups", "resources", "region", "prefer-region", "label", "policy"}

func explainCommand(c *cluster) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain [SESSION | --template TEMPLATE --user USER]",
		Short: "Explain where a session would be placed now",
		Long: "Explain where a session would be placed now: the verdict and remedy of every member, its scores, its free\n" +
			"capacity and the age of its report. It is a dry run: nothing is placed, and no capacity is reserved. A placed\n" +
			"session is evaluated as if it were rescheduled, without its own reservation.",
		Example: "  kubectl vdi explain ann -n desktops\n" +
			"  kubectl vdi explain --template browser --user ann@example.com --count 100 --distinct-users",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := o.review(cmd, args)
			if err != nil {
				return err
			}
			return c.explainPlacement(cmd, o, spec)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the session; by default that of the context.")
	flags.StringVar(&o.session.Template, "template", "", "Template of a hypothetical session.")
	flags.StringVar(&o.session.User, "user", "", "User of a hypothetical session.")
	flags.StringSliceVar(&o.session.Groups, "groups", nil, "Groups of the user.")
	flags.StringToStringVar(&o.resources, "resources", nil, "Requested resources, such as cpu=2,memory=4Gi; by default the template's.")
	flags.StringSliceVar(&o.session.Placement.RequiredRegions, "region", nil, "Required region; any of several.")
	flags.StringSliceVar(&o.session.Placement.PreferredRegions, "prefer-region", nil, "Preferred region; several in order of preference.")
	flags.StringToStringVar(&o.labels, "label", nil, "Label key=value of the session, which policies match.")
	flags.StringVar(&o.session.Placement.Policy, "policy", "", "Placement policy of the session; by default the one that matches.")
	flags.Int32Var(&o.count, "count", 1, "Number of such sessions, placed one after the other.")
	flags.BoolVar(&o.distinct, "distinct-users", false, "If true, each session has a different user.")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Second, "Maximum time to wait for the hub's answer.")
	return cmd
}

// review returns the spec of the review.
func (o *explainOptions) review(cmd *cobra.Command, args []string) (v1alpha1.PlacementReviewSpec, error) {
	spec := v1alpha1.PlacementReviewSpec{Count: o.count, DistinctUsers: o.distinct}
	if o.count < 1 {
		return spec, fmt.Errorf("--count %d is less than 1", o.count)
	}
	if len(args) == 1 {
		for _, name := range sessionFlags {
			if cmd.Flags().Changed(name) {
				return spec, fmt.Errorf("specify either the name of a session, or --%s of a hypothetical one", name)
			}
		}
		spec.SessionName = args[0]
		return spec, nil
	}
	if o.session.Template == "" || o.session.User == "" {
		return spec, errors.New("specify the name of a session, or --template and --user of a hypothetical one")
	}
	if len(o.resources) > 0 {
		o.session.Resources = corev1.ResourceList{}
	}
	for name, text := range o.resources {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return spec, fmt.Errorf("--resources %s=%s: %w", name, text, err)
		}
		o.session.Resources[corev1.ResourceName(name)] = quantity
	}
	spec.Session, spec.Labels = &o.session, o.labels
	return spec, nil
}

// explainPlacement requests a review, and prints its result.
func (c *cluster) explainPlacement(cmd *cobra.Command, o explainOptions, spec v1alpha1.PlacementReviewSpec) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	review := &v1alpha1.PlacementReview{Spec: spec}
	review.GenerateName = "explain-"
	if review.Namespace, err = c.namespaceOf(o); err != nil {
		return err
	}
	if err := c.review(cmd.Context(), api, review, o.timeout); err != nil {
		return err
	}
	if c.output == "json" {
		review.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PlacementReview"}
		review.ManagedFields = nil
	}
	return c.printResult(cmd.OutOrStdout(), review, reviewText(review))
}

// namespaceOf returns the session's namespace: that of the flag, or of the kubeconfig's
// context.
func (c *cluster) namespaceOf(o explainOptions) (string, error) {
	if o.namespace != "" {
		return o.namespace, nil
	}
	namespace, _, err := c.config().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return namespace, nil
}

// review creates a review, waits for its result, and deletes it.
func (c *cluster) review(ctx context.Context, api client.WithWatch, review *v1alpha1.PlacementReview, timeout time.Duration) error {
	if err := api.Create(ctx, review); err != nil {
		return reviewError(err, "creating the review", "create", review.Namespace)
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	defer func() {
		// Also after cancellation. The hub deletes remaining reviews after ten minutes.
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		defer stop()
		_ = api.Delete(ctx, &v1alpha1.PlacementReview{ObjectMeta: metav1.ObjectMeta{Namespace: review.Namespace, Name: review.Name}})
	}()
	err := awaitResult(ctx, api, review)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the hub has not answered within %s: check that one of its replicas leads, and that its version supports reviews", timeout)
	}
	if err != nil {
		return reviewError(err, "waiting for the hub's answer", "get and watch", review.Namespace)
	}
	return nil
}

// awaitResult watches a review until it has a result. A watch that ends is opened again,
// from the review's current version.
func awaitResult(ctx context.Context, api client.WithWatch, review *v1alpha1.PlacementReview) error {
	for {
		w, err := api.Watch(ctx, &v1alpha1.PlacementReviewList{}, client.InNamespace(review.Namespace),
			client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", review.Name)})
		if err != nil {
			return ended(ctx, err)
		}
		// The result may precede the watch.
		if err := api.Get(ctx, client.ObjectKeyFromObject(review), review); err != nil {
			w.Stop()
			return ended(ctx, err)
		}
		follow(ctx, w, review)
		w.Stop()
		if review.Status.ReviewTime != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// follow reads a watch until the review has a result, or the watch or the context ends.
func follow(ctx context.Context, w watch.Interface, review *v1alpha1.PlacementReview) {
	for review.Status.ReviewTime == nil {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open {
				return
			}
			if next, is := event.Object.(*v1alpha1.PlacementReview); is && next.Name == review.Name {
				next.DeepCopyInto(review)
			}
		}
	}
}

// ended returns the cause of the context's end, if it ended, and otherwise the error.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// reviewError adds the remedy to an error.
func reviewError(err error, what, verbs, namespace string) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w; you need permission to %s placementreviews.%s in namespace %s", what, err, verbs, v1alpha1.GroupName, namespace)
	case apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces"):
		return fmt.Errorf("%s: %w; specify the session's namespace with --namespace", what, err)
	}
	return explain(err, what)
}
