package integration

import (
	"cmp"
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// deniedWrite is a request of hub or agent that admission denies, of a session with
// the row's name.
type deniedWrite struct {
	name    string
	request string
	// mentions is what the object contains, by default the name.
	mentions string
	// home gives the session a home.
	home bool
	// files is set if its template has a file.
	files bool
}

func (w deniedWrite) denial() denial { return denial{w.request, cmp.Or(w.mentions, w.name)} }

// onTheWay are the requests that a session needs until it runs. The namespace already has a
// PodDisruptionBudget, whose denial agent/session tests, and policies without that CIDR.
var onTheWay = []deniedWrite{
	{name: "denied-revision", request: "create controllerrevisions"},
	{name: "denied-home-record", request: "create vdihomes", home: true},
	{name: "denied-password", request: "create secrets"},
	{name: "denied-assignment", request: "create sessionassignments"},
	{name: "denied-claim", request: "create persistentvolumeclaims", home: true},
	{name: "denied-config", request: "create configmaps", files: true},
	{name: "denied-isolation", request: "create networkpolicies", mentions: "10.77.0.0/16"},
	{name: "denied-pod", request: "create pods"},
	{name: "denied-service", request: "create services"},
	{name: "denied-ingress", request: "create ingresses"},
}

// messages returns the message of each session as `kubectl get` shows it, by name.
func messages(ctx context.Context) (map[string]string, error) {
	out, err := fleet.Hub.ControlPlane.Kubectl(ctx, "get", "vdis", "-n", namespace, "-o",
		`jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.message}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(out) {
		name, message, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all[name] = message
	}
	return all, nil
}

// atTheEnd are the requests that stop and remove a session's desktop.
var atTheEnd = []deniedWrite{
	{name: "denied-finalizer", request: "update vdisessions"},
	{name: "denied-release", request: "update sessionassignments"},
	{name: "denied-pod-end", request: "delete pods"},
	{name: "denied-service-end", request: "delete services"},
	{name: "denied-config-end", request: "delete configmaps", files: true},
}

var _ = Describe("A request that an API server denies", Ordered, func() {
	var webhook *denier

	BeforeAll(func(ctx SpecContext) {
		webhook = startDenier(ctx, fleet.Hub.ControlPlane, memberNamed("eu-west").ControlPlane)
	})

	showsDenied := func(ctx context.Context, rows []deniedWrite) {
		GinkgoHelper()
		for _, row := range rows {
			Eventually(ctx, func(ctx context.Context) (string, error) {
				all, err := messages(ctx)
				return all[row.name], err
			}).WithTimeout(10*time.Second).Should(And(ContainSubstring("not today"), ContainSubstring("exempt vdi-fleet from it")),
				"%s of %s", row.request, row.name)
			Expect(webhook.count(row.denial())).To(BeNumerically(">", 0))
		}
	}

	It("shows on the session with its remedy, and passes once it is allowed", func(ctx SpecContext) {
		var sessions []*v1alpha1.VDISession
		for _, row := range onTheWay {
			template(ctx, row.name, func(t *v1alpha1.TemplateSpec) {
				if row.mentions != "" {
					t.NetworkPolicy.EgressCIDRs = []string{row.mentions}
				}
				if row.files {
					t.Files = []v1alpha1.ConfigFile{{Name: "motd", Content: "welcome"}}
				}
				if row.home {
					t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser, MountPath: "/home/user", Size: ptr.To(resource.MustParse("1Gi"))}
				}
			})
			webhook.deny(row.denial())
			sessions = append(sessions, create(ctx, newSession(row.name, inRegion("eu-west"), user(row.name+"@example.com"), of(row.name))))
		}
		showsDenied(ctx, onTheWay)
		webhook.relent()
		for _, s := range sessions {
			retry(ctx, s)
		}
		for _, s := range sessions {
			awaitRunning(ctx, s)
		}
	})

	It("shows on a session that is being deleted, which ends once it is allowed", func(ctx SpecContext) {
		var sessions []*v1alpha1.VDISession
		for _, row := range atTheEnd {
			template(ctx, row.name, func(t *v1alpha1.TemplateSpec) {
				if row.files {
					t.Files = []v1alpha1.ConfigFile{{Name: "motd", Content: "welcome"}}
				}
			})
			sessions = append(sessions, create(ctx, newSession(row.name, inRegion("eu-west"), user(row.name+"@example.com"), of(row.name))))
		}
		for i, row := range atTheEnd {
			awaitRunning(ctx, sessions[i])
			webhook.deny(row.denial())
			Expect(hub.Delete(ctx, sessions[i])).To(Succeed())
		}
		showsDenied(ctx, atTheEnd)
		webhook.relent()
		for _, s := range sessions {
			awaitGone(ctx, s)
		}
	})

	It("shows on a session that is suspended", func(ctx SpecContext) {
		row := deniedWrite{name: "denied-suspension", request: "delete pods"}
		s := awaitRunning(ctx, create(ctx, newSession(row.name, inRegion("eu-west"))))
		webhook.deny(row.denial())
		change(ctx, s, suspended)
		showsDenied(ctx, []deniedWrite{row})
		webhook.relent()
		Eventually(ctx, reason(s, v1alpha1.ConditionPodReady)).Should(Equal(v1alpha1.ReasonSuspended))
	})
})

// retry raises the attempt of a session that failed permanently.
func retry(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	now, err := get(ctx, s)
	Expect(err).NotTo(HaveOccurred())
	if now.Status.Phase == v1alpha1.PhaseFailed {
		change(ctx, s, func(s *v1alpha1.VDISession) { s.Spec.Attempt = now.Status.Attempt + 1 })
	}
}
