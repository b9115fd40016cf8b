package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

const namespace = "desktops"

// regions are the members, each named for its region.
var regions = []string{"eu-west", "us-east", "ap-south"}

// samples are the sessions of deploy/samples/sessions.yaml with the members
// where each may run.
var samples = map[string][]string{
	"alice-browser":   regions,
	"bob-browser":     {"ap-south"},
	"carol-developer": {"eu-west"},
	"dave-developer":  {"us-east", "ap-south"},
	"erin-gpu":        {"us-east"},
}

func (d *demo) members(ctx context.Context) error {
	d.announce("The members, as the hub sees them")
	_, err := d.show(ctx, "hub", "get", "memberclusters")
	return err
}

func (d *demo) samples(ctx context.Context) error {
	d.announce("Templates, policies and five sessions: browsers, developers with a home, one GPU")
	if _, err := d.show(ctx, "hub", "apply", "-f", "deploy/samples/policies", "-f", "deploy/samples/templates.yaml"); err != nil {
		return err
	}
	for template, members := range map[string]string{"browser": "3", "developer": "3", "gpu": "1"} {
		if err := d.expect(ctx, "vditemplate/"+template, ".status.availableClusters", members); err != nil {
			return err
		}
	}
	if _, err := d.show(ctx, "hub", "apply", "-f", "deploy/samples/sessions.yaml"); err != nil {
		return err
	}
	for name, allowed := range samples {
		if err := d.expect(ctx, "vdisession/"+name, ".status.phase", "Running"); err != nil {
			return err
		}
		if err := d.expect(ctx, "vdisession/"+name, ".status.placement.clusterName", allowed...); err != nil {
			return err
		}
	}
	for _, kind := range []string{"vdisessions", "vditemplates"} {
		if _, err := d.show(ctx, "hub", "get", kind, "-A"); err != nil {
			return err
		}
	}
	return nil
}

// onePodEach counts Pods by session over all members.
func (d *demo) onePodEach(ctx context.Context) error {
	d.announce("Each session has exactly one Pod in the whole fleet, and its home and Service beside it; one Ingress leads to all of a member's desktops")
	pods := map[string]int{}
	for _, member := range regions {
		out, err := d.output(ctx, member, "get", "pods", "-A", "-l", "app.kubernetes.io/managed-by=vdi-fleet",
			"-o", `jsonpath={range .items[*]}{.metadata.annotations.vdi\.kasm\.io/session}{"\n"}{end}`)
		if err != nil {
			return err
		}
		for session := range strings.FieldsSeq(out) {
			pods[strings.TrimPrefix(session, namespace+"/")]++
		}
		if _, err := d.show(ctx, member, "get", "vdia,pod,pvc,svc,ingress", "-n", namespace); err != nil {
			return err
		}
	}
	for name := range samples {
		if pods[name] != 1 {
			return fmt.Errorf("claimed: %s has one Pod in the fleet; it has %d", name, pods[name])
		}
	}
	if len(pods) != len(samples) {
		return fmt.Errorf("claimed: only the sessions have Pods; found %v", pods)
	}
	fmt.Println("   checked: one Pod for each of", len(samples), "sessions")
	return nil
}

func (d *demo) unplaceable(ctx context.Context) error {
	d.announce("A session that fits nowhere shows why, in a sentence")
	if _, err := d.show(ctx, "hub", "apply", "-f", "deploy/samples/unplaceable.yaml"); err != nil {
		return err
	}
	if err := d.expect(ctx, "vdisession/frank-gpu", `.status.conditions[?(@.type=="Scheduled")].reason`, "Unschedulable"); err != nil {
		return err
	}
	if err := d.expect(ctx, "vdisession/frank-gpu", ".status.phase", "Pending"); err != nil {
		return err
	}
	_, err := d.show(ctx, "hub", "get", "vdisession", "frank-gpu", "-n", namespace, "-o", "wide")
	return err
}

func (d *demo) brokenImage(ctx context.Context) error {
	d.announce("A session whose image can't be pulled shows it, and is removed when it is deleted")
	if _, err := d.show(ctx, "hub", "apply", "-f", "deploy/samples/broken-image.yaml"); err != nil {
		return err
	}
	if err := d.expect(ctx, "vdisession/grace-broken", `.status.conditions[?(@.type=="PodReady")].reason`, "ImagePullFailed"); err != nil {
		return err
	}
	if _, err := d.show(ctx, "hub", "get", "vdisession", "grace-broken", "-n", namespace, "-o", `jsonpath={.status.phase}: {.status.message}`); err != nil {
		return err
	}
	return d.remove(ctx, "grace-broken")
}

// loseAgent kills the agent of the member that has the GPU session.
func (d *demo) loseAgent(ctx context.Context) error {
	const member, session = "us-east", "erin-gpu"
	d.announce("The agent of %s is killed: its desktops run on, and the hub shows what is unknown", member)
	if err := d.fleet(ctx, "kill-agent", member); err != nil {
		return err
	}
	if err := d.expect(ctx, "membercluster/"+member, `.status.conditions[?(@.type=="Ready")].reason`, "Unreachable"); err != nil {
		return err
	}
	if err := d.expect(ctx, "vdisession/"+session, `.status.conditions[?(@.type=="Ready")].status`, "Unknown"); err != nil {
		return err
	}
	if _, err := d.show(ctx, "hub", "get", "memberclusters"); err != nil {
		return err
	}
	if _, err := d.show(ctx, "hub", "get", "vdisession", session, "-n", namespace, "-o", "wide"); err != nil {
		return err
	}
	if err := d.podsOf(ctx, member, session, 1); err != nil {
		return err
	}
	d.announce("It comes back, and both sides agree again")
	if err := d.fleet(ctx, "start-agent", member); err != nil {
		return err
	}
	if err := d.expect(ctx, "membercluster/"+member, `.status.conditions[?(@.type=="Ready")].status`, "True"); err != nil {
		return err
	}
	return d.expect(ctx, "vdisession/"+session, `.status.conditions[?(@.type=="Ready")].status`, "True")
}

func (d *demo) delete(ctx context.Context) error {
	const session = "alice-browser"
	d.announce("A session is deleted, and nothing of it is left in its member")
	member, err := d.field(ctx, "vdisession/"+session, ".status.placement.clusterName")
	if err != nil {
		return err
	}
	if err := d.remove(ctx, session); err != nil {
		return err
	}
	if err := d.podsOf(ctx, member, session, 0); err != nil {
		return err
	}
	left, err := d.output(ctx, member, "get", "vdia,pod,pvc,svc,ingress", "-n", namespace, "-o", "name")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(strings.Fields(left), func(name string) bool { return strings.Contains(name, session) }) {
		return fmt.Errorf("claimed: nothing of %s is left in %s; found %s", session, member, left)
	}
	_, err = d.show(ctx, member, "get", "vdia,pod,pvc,svc,ingress", "-n", namespace)
	return err
}

// remove deletes a session and waits until it is gone.
func (d *demo) remove(ctx context.Context, session string) error {
	_, err := d.show(ctx, "hub", "delete", "vdisession", session, "-n", namespace, "--timeout=60s")
	return err
}

// podsOf checks how many Pods of a session a member has.
func (d *demo) podsOf(ctx context.Context, member, session string, want int) error {
	return d.until(ctx, fmt.Sprintf("%s has %d Pods of %s", member, want, session), func() (bool, string) {
		out, err := d.output(ctx, member, "get", "pods", "-n", namespace, "-o", `jsonpath={range .items[*]}{.metadata.annotations.vdi\.kasm\.io/session}{"\n"}{end}`)
		if err != nil {
			return false, err.Error()
		}
		n := 0
		for name := range strings.FieldsSeq(out) {
			if name == namespace+"/"+session {
				n++
			}
		}
		return n == want, fmt.Sprintf("it has %d", n)
	})
}
