package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// limited is the session of deploy/samples/life.yaml whose lifecycle is shown.
const limited = "heidi-browser"

// patch changes a session by kubectl, as its user would.
func (c *console) patch(ctx context.Context, session, change string) error {
	_, err := c.show(ctx, "hub", "patch", "vdisession", session, "-n", namespace, "--type=merge", "-p", change)
	return err
}

// phase waits until a session has a phase.
func (c *console) phase(ctx context.Context, session, phase string) error {
	return c.expect(ctx, "vdisession/"+session, ".status.phase", phase)
}

// member returns the member that a session is placed in.
func (c *console) member(ctx context.Context, session string) (string, error) {
	return c.field(ctx, "vdisession/"+session, ".status.placement.clusterName")
}

// see shows a session's row.
func (c *console) see(ctx context.Context, session string) error {
	_, err := c.show(ctx, "hub", "get", "vdisession", session, "-n", namespace)
	return err
}

// event waits until there is an event with a reason on a session.
func (c *console) event(ctx context.Context, session, reason string) error {
	return c.until(ctx, fmt.Sprintf("%s has an event %s", session, reason), func() (bool, string) {
		out, err := c.output(ctx, "hub", "get", "events", "-n", namespace,
			"--field-selector", "involvedObject.name="+session, "-o", "jsonpath={.items[*].reason}")
		if err != nil {
			return false, err.Error()
		}
		return slices.Contains(strings.Fields(out), reason), "it has " + out
	})
}

func (d *demo) expire(ctx context.Context) error {
	d.announce("A session of ten seconds: its user gets a warning, and then it is ended")
	if _, err := d.show(ctx, "hub", "apply", "-f", "deploy/samples/life.yaml"); err != nil {
		return err
	}
	if err := d.phase(ctx, limited, "Running"); err != nil {
		return err
	}
	if err := d.event(ctx, limited, "ExpiringSoon"); err != nil {
		return err
	}
	if err := d.phase(ctx, limited, "Failed"); err != nil {
		return err
	}
	if err := d.see(ctx, limited); err != nil {
		return err
	}
	member, err := d.member(ctx, limited)
	if err != nil {
		return err
	}
	return d.podsOf(ctx, member, limited, 0)
}

func (d *demo) extend(ctx context.Context) error {
	d.announce("It is extended, and runs again in the same member")
	member, err := d.member(ctx, limited)
	if err != nil {
		return err
	}
	if err := d.patch(ctx, limited, `{"spec":{"timeout":"2h"}}`); err != nil {
		return err
	}
	if err := d.phase(ctx, limited, "Running"); err != nil {
		return err
	}
	return d.expect(ctx, "vdisession/"+limited, ".status.placement.clusterName", member)
}

func (d *demo) suspend(ctx context.Context) error {
	d.announce("It is suspended: its Pod is deleted and its slot is free; its URL stays, and its time stands still")
	member, err := d.member(ctx, limited)
	if err != nil {
		return err
	}
	if err := d.patch(ctx, limited, `{"spec":{"operatingMode":"Suspended"}}`); err != nil {
		return err
	}
	if err := d.phase(ctx, limited, "Pending"); err != nil {
		return err
	}
	if err := d.podsOf(ctx, member, limited, 0); err != nil {
		return err
	}
	return d.see(ctx, limited)
}

func (d *demo) resume(ctx context.Context) error {
	d.announce("It is resumed at the same URL, with a new password that its user can read")
	url, err := d.field(ctx, "vdisession/"+limited, ".status.url")
	if err != nil {
		return err
	}
	if err := d.patch(ctx, limited, `{"spec":{"operatingMode":"Running"}}`); err != nil {
		return err
	}
	if err := d.phase(ctx, limited, "Running"); err != nil {
		return err
	}
	if err := d.expect(ctx, "vdisession/"+limited, ".status.url", url); err != nil {
		return err
	}
	secret, err := d.field(ctx, "vdisession/"+limited, ".status.accessSecretName")
	if err != nil {
		return err
	}
	_, err = d.show(ctx, "hub", "get", "secret", secret, "-n", namespace)
	return err
}

// failure shows a session that fails permanently, the reason, and its retry.
func (d *demo) failure(ctx context.Context) error {
	const session = "ivan-mistyped"
	d.announce("A session that can never start fails permanently, and names the remedy")
	if err := d.phase(ctx, session, "Failed"); err != nil {
		return err
	}
	if _, err := d.show(ctx, "hub", "get", "vdisession", session, "-n", namespace, "-o", `jsonpath={.status.phase}: {.status.message}`); err != nil {
		return err
	}
	d.announce("The template is corrected and the session retried, without being deleted")
	image := `{"spec":{"image":"docker.io/kasmweb/chrome:1.16.0"}}`
	if _, err := d.show(ctx, "hub", "patch", "vditemplate", "mistyped", "--type=merge", "-p", image); err != nil {
		return err
	}
	if err := d.patch(ctx, session, `{"spec":{"attempt":1}}`); err != nil {
		return err
	}
	if err := d.phase(ctx, session, "Running"); err != nil {
		return fmt.Errorf("trying again: %w", err)
	}
	return d.see(ctx, session)
}
