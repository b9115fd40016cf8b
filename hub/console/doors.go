package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters,verbs=list;watch

// trimmedMember removes from a cached MemberCluster what no page needs.
func trimmedMember(o any) (any, error) {
	mc, ok := o.(*v1alpha1.MemberCluster)
	if !ok {
		return o, nil
	}
	out := &v1alpha1.MemberCluster{TypeMeta: mc.TypeMeta}
	out.Name, out.UID, out.ResourceVersion = mc.Name, mc.UID, mc.ResourceVersion
	out.Spec.IngressDomain, out.Spec.IngressScheme, out.Spec.IngressPort = mc.Spec.IngressDomain, mc.Spec.IngressScheme, mc.Spec.IngressPort
	out.Status.Door = mc.Status.Door
	return out, nil
}

// watchDoors marks all pages when a member gets a door, or loses it, and logs members whose desktops are of another site
// than the console.
func (c *console) watchDoors(ctx context.Context, sources cache.Cache) error {
	informer, err := sources.GetInformer(ctx, &v1alpha1.MemberCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching members: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(added any) {
			if mc, ok := added.(*v1alpha1.MemberCluster); ok {
				c.logSite(ctx, mc)
			}
		},
		UpdateFunc: func(before, after any) {
			was, ok := before.(*v1alpha1.MemberCluster)
			is, both := after.(*v1alpha1.MemberCluster)
			if !ok || !both || was.Status.Door == is.Status.Door && was.Spec.IngressDomain == is.Spec.IngressDomain {
				return
			}
			c.topics.Mark(aboutSystem)
			c.logSite(ctx, is)
		},
	})
	return err
}

// logSite logs that browsers keep the cookies of a member's desktops apart from those of the console.
func (c *console) logSite(ctx context.Context, mc *v1alpha1.MemberCluster) {
	if !mc.Status.Door || !visit.CrossSite(c.url.Hostname(), mc.Spec.IngressDomain) {
		return
	}
	log.FromContext(ctx).Info("The desktops of a member are of another site than the console. Browsers keep their cookies apart, and some do not show them in its pages. Choose domains of one site",
		"member", mc.Name, "ingressDomain", mc.Spec.IngressDomain, "console", c.url.String())
}

// doorOf returns the origin of a session's desktop if it runs behind a door, and "" otherwise.
func (c *reader) doorOf(ctx context.Context, s *v1alpha1.VDISession) (string, error) {
	if s.Status.Placement == nil || s.Status.Endpoint == nil {
		return "", nil
	}
	mc := &v1alpha1.MemberCluster{}
	err := c.cache.Get(ctx, types.NamespacedName{Name: s.Status.Placement.ClusterName}, mc, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading member %s: %w", s.Status.Placement.ClusterName, err)
	case mc.UID != s.Status.Placement.ClusterUID || !mc.Status.Door:
		return "", nil
	}
	u, err := url.Parse(s.Status.Endpoint.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return "", nil
	}
	return u.Scheme + "://" + u.Host, nil
}

// frameSources returns the hosts that pages may frame: the sites of all members with a door (Content-Security-Policy).
func (c *reader) frameSources(ctx context.Context) (string, error) {
	var members v1alpha1.MemberClusterList
	if err := c.cache.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing members: %w", err)
	}
	var sources []string
	for i := range members.Items {
		if mc := &members.Items[i]; mc.Status.Door {
			sources = append(sources, sourceOf(&mc.Spec))
		}
	}
	slices.Sort(sources)
	return cmp.Or(strings.Join(slices.Compact(sources), " "), noSources), nil
}

// noSources permits no frame.
const noSources = "'none'"

// sourceOf returns the source of all hosts of a member's site. A source for each member's own domain would make the header
// of a large fleet too long.
func sourceOf(spec *v1alpha1.MemberClusterSpec) string {
	source := cmp.Or(spec.IngressScheme, "https") + "://*." + cmp.Or(visit.SiteOf(spec.IngressDomain), spec.IngressDomain)
	if spec.IngressPort != 0 {
		source += ":" + strconv.Itoa(int(spec.IngressPort))
	}
	return source
}
