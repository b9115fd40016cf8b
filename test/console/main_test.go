package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The fleet of the tests.
var (
	// base is the address of the console, and host its host.
	base, host string
	// issuer is the address at which the console expects its identity provider, which the tests start.
	issuer string
	// fleetDir is the directory of the fleet.
	fleetDir string
	// root is that of the project.
	root = filepath.Join("..", "..")
	// artifacts is where screenshots are.
	artifacts = filepath.Join(root, "dist", "console")
)

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run runs the tests with a fleet, which it removes.
func run(ctx context.Context, m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "vdi-console-")
	if err != nil {
		return 0, err
	}
	fleetDir = filepath.Join(dir, "fleet")
	down := func() {
		err = errors.Join(err, command(context.WithoutCancel(ctx), "fleet", "--dir="+fleetDir, "down").Run(), os.RemoveAll(dir))
	}
	defer down()
	if err := errors.Join(up(ctx, dir), os.RemoveAll(artifacts), os.MkdirAll(artifacts, 0o755)); err != nil {
		return 0, err
	}
	defer context.AfterFunc(ctx, func() {
		down()
		os.Exit(1)
	})()
	return m.Run(), nil
}

var consoleLine = regexp.MustCompile(`(?m)^console: (.*)$`)

// up starts a fleet with two replicas of the console, and the templates of the samples.
func up(ctx context.Context, dir string) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer = "http://" + free.Addr().String() + "/oidc"
	secret := filepath.Join(dir, "client-secret")
	if err := errors.Join(free.Close(), os.WriteFile(secret, []byte(clientSecret), 0o600)); err != nil {
		return err
	}
	fleet := command(ctx, "fleet", "--dir="+fleetDir, "up", "--members=2", "--time-factor=0.2", "--nodes=6", "--gpu-nodes=0", "--consoles=2", "--console-port=0",
		"--console-arg=--oidc-issuer-url="+issuer, "--console-arg=--oidc-client-id="+clientID, "--console-arg=--oidc-client-secret-file="+secret,
		"--console-arg=--oidc-username-claim=email", "--console-arg=--oidc-groups-claim=groups",
		"--console-arg=--oidc-scopes=email", "--console-arg=--oidc-scopes=groups")
	var out bytes.Buffer
	fleet.Stdout = io.MultiWriter(os.Stdout, &out)
	if err := fleet.Run(); err != nil {
		return fmt.Errorf("starting the fleet (make controlplane build): %w", err)
	}
	found := consoleLine.FindSubmatch(out.Bytes())
	if found == nil {
		return errors.New("bin/fleet prints no address of the console")
	}
	base = string(found[1])
	host = hostOf(base)
	for _, args := range [][]string{
		{"apply", "--filename=" + filepath.Join(root, "deploy", "samples", "templates.yaml")},
		{"wait", "vditemplate", "browser", "--for=jsonpath={.status.availableClusters}=2", "--timeout=60s"},
	} {
		if out, err := kubectl(ctx, args...); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// command returns a command of the project's, whose messages are those of the tests.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", name), args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// kubectl runs kubectl against the hub as its administrator.
func kubectl(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--kubeconfig=" + filepath.Join(fleetDir, "kubeconfig"), "--context=hub"}, args...)
	out, err := command(ctx, "kubectl", args...).Output()
	return strings.TrimSpace(string(out)), err
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
