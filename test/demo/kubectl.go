package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// console runs kubectl and the fleet command, and prints the steps.
type console struct {
	dir  string
	step int
}

// demo drives one fleet by kubectl.
type demo struct {
	console
	lost string // the region that is powered off
}

// announce prints a step.
func (c *console) announce(format string, args ...any) {
	c.step++
	fmt.Printf("\n== %d. %s\n", c.step, fmt.Sprintf(format, args...))
}

// fleet runs the fleet command on the demo's fleet, and prints its output.
func (c *console) fleet(ctx context.Context, args ...string) error {
	args = append(args, "--dir", c.dir)
	fmt.Printf("$ bin/fleet %s\n", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, "bin/fleet", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// On an interrupt, it stops what it has started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bin/fleet %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// show runs kubectl in a cluster, prints the command and its output, and returns the output.
func (c *console) show(ctx context.Context, cluster string, args ...string) (string, error) {
	fmt.Printf("$ kubectl --context %s %s\n", cluster, strings.Join(args, " "))
	out, err := c.output(ctx, cluster, args...)
	fmt.Println(indent(out))
	return out, err
}

// output runs kubectl in a cluster without printing anything.
func (c *console) output(ctx context.Context, cluster string, args ...string) (string, error) {
	full := append([]string{"--kubeconfig", c.dir + "/kubeconfig", "--context", cluster}, args...)
	cmd := exec.CommandContext(ctx, "bin/kubectl", full...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl --context %s %s: %w: %s", cluster, strings.Join(args, " "), err, errOut.String())
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// field returns one field of one object of the hub.
func (c *console) field(ctx context.Context, object, path string) (string, error) {
	kind, name, _ := strings.Cut(object, "/")
	return c.output(ctx, "hub", "get", kind, name, "-n", namespace, "-o", "jsonpath={"+path+"}")
}

// expect waits until a field of an object of the hub has one of the values.
func (c *console) expect(ctx context.Context, object, path string, values ...string) error {
	return c.until(ctx, fmt.Sprintf("%s %s is %s", object, path, strings.Join(values, " or ")), func() (bool, string) {
		got, err := c.field(ctx, object, path)
		if err != nil {
			return false, err.Error()
		}
		for _, v := range values {
			if got == v {
				return true, ""
			}
		}
		return false, fmt.Sprintf("it is %q", got)
	})
}

// until waits until a claim holds, and returns an error with the last reason if that takes longer
// than two minutes.
func (c *console) until(ctx context.Context, claim string, holds func() (ok bool, why string)) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ok, why := holds()
		if ok {
			fmt.Printf("   checked: %s\n", claim)
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("claimed: %s; but %s", claim, why)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w (%s)", claim, ctx.Err(), why)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func indent(s string) string {
	return "   " + strings.ReplaceAll(s, "\n", "\n   ")
}
