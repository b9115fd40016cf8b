package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pages"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// browser is one of a user, whose requests must be answered.
type browser struct{ *pages.Browser }

func newBrowser() browser {
	GinkgoHelper()
	b, err := pages.New(fleet.Console.URL)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	return browser{b}
}

func (b browser) get(ctx context.Context, path string) pages.Page {
	GinkgoHelper()
	p, err := b.Get(ctx, path)
	Expect(err).NotTo(HaveOccurred())
	return p
}

func (b browser) post(ctx context.Context, path string, form url.Values) pages.Page {
	GinkgoHelper()
	p, err := b.Post(ctx, path, form)
	Expect(err).NotTo(HaveOccurred())
	return p
}

// shows returns whether a page contains a text, for Eventually.
func (b browser) shows(path, text string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		p, err := b.Get(ctx, path)
		return strings.Contains(p.Body, text), err
	}
}

// loggedIn returns the browser of one of harness.Users.
func loggedIn(ctx context.Context, name string) browser {
	GinkgoHelper()
	b := newBrowser()
	Expect(b.Login(ctx, name)).To(Succeed())
	return b
}

// value returns that of an input of a form.
func value(p pages.Page, name string) string {
	GinkgoHelper()
	v, err := p.Value(name)
	Expect(err).NotTo(HaveOccurred())
	return v
}

// running is what the page of a session shows whose desktop can be opened.
const running = `class="card running"`

var _ = Describe("The console", func() {
	It("lets users run their own desktops, as themselves, and shows them no other's", specs.Smoke, func(ctx SpecContext) {
		Expect(newBrowser().get(ctx, "/").Location).To(HavePrefix("/login"))
		alice, bob := loggedIn(ctx, "alice"), loggedIn(ctx, "bob")

		By("starting one")
		form := alice.get(ctx, "/new/browser")
		s := newSession(value(form, "name"))
		started := alice.post(ctx, "/new/browser", url.Values{"name": {s.Name}, "namespace": {namespace}})
		Expect(started.Status).To(Equal(http.StatusSeeOther), started.Body)
		DeferCleanup(func(ctx SpecContext) { Expect(deleteNow(ctx, s.Name)).To(Succeed()) })
		path := started.Location
		Expect(path).To(Equal("/s/" + namespace + "/" + s.Name))
		Expect(awaitRunning(ctx, s).Spec.User).To(Equal("alice@example.com"))
		Eventually(ctx, alice.shows(path, running)).Should(BeTrue())

		By("looking at it as others")
		Expect(bob.get(ctx, path).Status).To(Equal(http.StatusNotFound))
		Expect(bob.get(ctx, "/s/"+namespace+"/none").Status).To(Equal(http.StatusNotFound))
		Expect(bob.get(ctx, "/").Body).NotTo(ContainSubstring(s.Name))
		uid := url.Values{"uid": {value(alice.get(ctx, path), "uid")}}
		Expect(bob.post(ctx, path+"/end", uid).Status).To(Equal(http.StatusNotFound))
		operator := loggedIn(ctx, "oscar").get(ctx, path)
		Expect(operator.Status).To(Equal(http.StatusOK), "operators read all sessions")
		Expect(operator.Body).NotTo(ContainSubstring("<form method=\"post\" action=\"/s/"))

		By("suspending it, and waking it by its address")
		Expect(alice.post(ctx, path+"/suspend", uid).Location).To(Equal("/"))
		Eventually(ctx, alice.shows("/", `class="card suspended"`)).Should(BeTrue())
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhasePending))
		Expect(alice.get(ctx, "/d/browser").Location).To(Equal(path))
		Expect(alice.get(ctx, path).Body).To(ContainSubstring("data-submit"))
		Expect(alice.post(ctx, path+"/wake", uid).Location).To(Equal(path))
		Eventually(ctx, alice.shows(path, running)).Should(BeTrue())

		By("ending it")
		Expect(alice.post(ctx, path+"/end", uid).Location).To(Equal("/"))
		awaitGone(ctx, s)
	})

	It("logs the user of a kubeconfig in, once", func(ctx SpecContext) {
		root, err := harness.Root()
		Expect(err).NotTo(HaveOccurred())
		out, err := exec.CommandContext(ctx, filepath.Join(root, "bin/kubectl-vdi"), "console", "--no-browser",
			"--kubeconfig="+fleet.Kubeconfig, "--context=alice", "--session-namespace="+namespace).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		link := regexp.MustCompile(`http://[^\s#]+(/t/[^\s#]+)#(\S+)`).FindStringSubmatch(string(out))
		Expect(link).NotTo(BeNil(), string(out))
		ticket, secret := link[1], link[2]

		b := newBrowser()
		Expect(b.get(ctx, ticket).Body).NotTo(ContainSubstring(secret))
		Expect(b.post(ctx, ticket+"/login", url.Values{"secret": {"guessed"}}).Status).To(Equal(http.StatusUnauthorized))
		Expect(b.post(ctx, ticket+"/login", url.Values{"secret": {secret}}).Status).To(Equal(http.StatusSeeOther))
		Expect(b.get(ctx, "/").Body).To(ContainSubstring("alice@example.com"))
		Expect(newBrowser().post(ctx, ticket+"/login", url.Values{"secret": {secret}}).Status).To(Equal(http.StatusUnauthorized), "a second time")
	})

	It("acts as users in the fleet's API alone", func(ctx SpecContext) {
		config, err := fleet.Hub.ControlPlane.ConfigFor(harness.ConsoleUser, "system:serviceaccounts")
		Expect(err).NotTo(HaveOccurred())
		as := func(user string, groups ...string) kubernetes.Interface {
			impersonating := rest.CopyConfig(config)
			impersonating.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
			return kubernetes.NewForConfigOrDie(impersonating)
		}
		for _, who := range []kubernetes.Interface{
			as("alice@example.com"), as("admin", "system:masters"), as("system:node:hub"), as("system:serviceaccount:kube-system:generic-garbage-collector"),
		} {
			_, err := who.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
			Expect(err).To(MatchError(ContainSubstring("forbidden")))
			_, err = who.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
			Expect(err).To(MatchError(ContainSubstring("forbidden")))
		}
		for _, own := range []authorizationv1.ResourceAttributes{
			{Verb: "list", Resource: "secrets", Namespace: namespace}, {Verb: "impersonate", Resource: "users"},
			{Verb: "patch", Group: v1alpha1.GroupVersion.Group, Resource: "vdisessions", Namespace: namespace},
		} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: harness.ConsoleUser, ResourceAttributes: &own}}
			Expect(hub.Create(ctx, review)).To(Succeed())
			Expect(review.Status.Allowed).To(BeFalse(), "%s %s as itself", own.Verb, own.Resource)
		}
	})

	It("serves while a replica restarts, with the logins of both", func(ctx SpecContext) {
		alice := loggedIn(ctx, "alice")
		for _, replica := range fleet.Console.Replicas {
			Expect(replica.Stop()).To(Succeed())
			for range 4 {
				Expect(alice.get(ctx, "/").Status).To(Equal(http.StatusOK), fmt.Sprint("without ", replica.Spec.Name))
			}
			Expect(replica.Restart()).To(Succeed())
			Expect(replica.WaitReady(ctx)).To(Succeed())
		}
	})
})
