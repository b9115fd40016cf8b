package assignment

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// orders that a compromised hub may send.
var hostile = map[string]func(*v1alpha1.SessionAssignment){
	"the whole network": func(a *v1alpha1.SessionAssignment) { a.Spec.Desktop.NetworkPolicy.Mode = v1alpha1.NetworkOpen },
	"the metadata service": func(a *v1alpha1.SessionAssignment) {
		a.Spec.Desktop.NetworkPolicy.EgressCIDRs = []string{"169.254.169.254/32"}
	},
	"the control plane's nodes": func(a *v1alpha1.SessionAssignment) {
		a.Spec.Desktop.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}}
	},
	"another user's host":      func(a *v1alpha1.SessionAssignment) { a.Spec.Host = "www.example.com" },
	"another registry's image": func(a *v1alpha1.SessionAssignment) { a.Spec.Desktop.Image = "evil.example/miner:1" },
	"a class of more power":    func(a *v1alpha1.SessionAssignment) { a.Spec.Desktop.RuntimeClassName = "privileged" },
	"a class above others": func(a *v1alpha1.SessionAssignment) {
		a.Spec.Desktop.PriorityClassName = "system-node-critical"
	},
}

// strict is what a careful administrator allows.
var strict = restriction.Settings{
	HostSuffixes: []string{"desktops.example.com"}, ImagePrefixes: []string{"registry.example.com/desktops/"},
	RuntimeClasses: []string{restriction.Unnamed, "gvisor"}, PriorityClasses: []string{restriction.Unnamed, "desktops"},
}

func lawful(epoch int64) *v1alpha1.SessionAssignment {
	a := assignment("u1", epoch, "ada")
	a.Spec.Host, a.Spec.Desktop.Image = "desk-u1.desktops.example.com", "registry.example.com/desktops/firefox:1"
	return a
}

func TestHubCannotOrderWhatTheMemberDoesNotAllow(t *testing.T) {
	for name, change := range hostile {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.Restrictions = &restriction.Settings{OpenNetwork: true, PrivateEgress: true, LinkLocalEgress: true, ControlPlane: true}
			a := lawful(1)
			change(a)
			b.Put(order(a))
			b.expect("STORED e1") // what no administrator has restricted

			b = newFixture(t)
			b.Restrictions = &strict
			b.Put(order(a))
			b.expect("REFUSED e1 NotAllowed")
			if b.get("u1") != nil {
				t.Error("it is stored nevertheless")
			}
			b.Put(order(lawful(2)))
			b.expect("STORED e2")
		})
	}
}

// A hub can't change an allowed order to one that is not.
func TestHubCannotChangeWhatRunsToWhatTheMemberDoesNotAllow(t *testing.T) {
	for name, change := range hostile {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.Restrictions = &strict
			b.Put(order(lawful(1)))
			b.expect("STORED e1")
			before := b.get("u1")

			same := lawful(1)
			change(same)
			b.Put(order(same))
			b.work(b.ctx)
			if got := b.results.take(); len(got) > 0 {
				t.Errorf("reported %v: Refused would mean that nothing runs", got)
			}
			if now := b.get("u1"); now.ResourceVersion != before.ResourceVersion {
				t.Errorf("it is changed to %+v", now.Spec)
			}
			next := lawful(2)
			change(next)
			b.Put(order(next))
			b.expect("REFUSED e2 NotAllowed")
			b.Put(order(lawful(3)))
			b.expect("STORED e3")
		})
	}
}

// A session that was stored before a restriction goes on, and can be suspended.
func TestWhatWasAllowedBeforeCanStillBeSuspended(t *testing.T) {
	b := newFixture(t)
	open := lawful(1)
	hostile["the whole network"](open)
	b.Put(order(open))
	b.expect("STORED e1")
	b.Restrictions = &strict
	open.Spec.RunState = v1alpha1.ModeSuspended
	b.Put(order(open))
	b.expect("STORED e1")
	if b.get("u1").Spec.RunState != v1alpha1.ModeSuspended {
		t.Error("it is not suspended")
	}
	hostile["another user's host"](open)
	b.Put(order(open))
	b.work(b.ctx)
	if strings.HasPrefix(b.get("u1").Spec.Host, "www") {
		t.Error("it has got another user's host")
	}
}
