package browser

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testedImage returns the name of the desktop's image, which `make desktop-image` builds.
func testedImage() string {
	if name := os.Getenv("DESKTOP_IMG"); name != "" {
		return name
	}
	return "vdi-desktop:dev"
}

const password = "correct-horse-battery-staple"

// container is a desktop that Docker runs, as little privileged as its Pod would be.
type container struct {
	t    *testing.T
	name string
	url  string
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func startContainer(t *testing.T) *container {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip(ErrNoBrowser)
	}
	if err := exec.Command("docker", "info").Run(); err != nil {
		t.Skip("no Docker daemon answers")
	}
	if err := exec.Command("docker", "image", "inspect", testedImage()).Run(); err != nil {
		t.Skipf("no image %s: `make desktop-image` makes it", testedImage())
	}
	access := t.TempDir()
	if err := os.WriteFile(filepath.Join(access, "password"), []byte(password+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(access, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &container{t: t}
	c.name = docker(t, "run", "--detach", "--read-only", "--cap-drop", "ALL", "--user", "1000:1000",
		"--security-opt", "no-new-privileges", "--tmpfs", "/tmp:mode=1777", "--tmpfs", "/home/user:uid=1000,gid=1000",
		"--memory", "512m", "--volume", access+":/etc/vdi/access:ro", testedImage())
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(docker(t, "logs", c.name))
		}
		docker(t, "rm", "--force", "--volumes", c.name)
	})
	c.url = "http://" + docker(t, "inspect", "--format", "{{.NetworkSettings.IPAddress}}", c.name) + ":6901"
	c.eventually("the desktop to answer", func() bool {
		response, err := http.Get(c.url + "/.well-known/vdi/activity")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	return c
}

func (c *container) eventually(what string, ok func() bool) {
	c.t.Helper()
	deadline, tick := time.After(actionTimeout), time.NewTicker(pollInterval)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			c.t.Fatal("timed out waiting for " + what)
		case <-tick.C:
		}
	}
}

// open opens the desktop under a name that only the browser's own resolver has, below localhost,
// where a browser keeps the login without HTTPS.
func (c *container) open() *Desktop {
	c.t.Helper()
	host := strings.TrimPrefix(c.url, "http://")
	d, err := Open(c.t.Context(), "http://ann.localhost/", map[string]string{"*.localhost": host})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(d.Close)
	return d
}

func artifact(t *testing.T, name string) string {
	t.Helper()
	if dir := os.Getenv("ARTIFACTS"); dir != "" {
		return filepath.Join(dir, name)
	}
	return filepath.Join(t.TempDir(), name)
}

func TestAUserSeesTheDesktopAndTypes(t *testing.T) {
	c := startContainer(t)
	d := c.open()
	if err := d.Login(password); err != nil {
		t.Fatal(err)
	}
	before, err := d.Await(t.Context(), "a desktop", func(p Picture) bool { return !p.Blank() })
	if err != nil {
		t.Fatal(err)
	}
	t.Log("the desktop: ", before)
	if err := d.Type("echo hello > ~/file; cat ~/file\n"); err != nil {
		t.Fatal(err)
	}
	after, err := d.Await(t.Context(), "what was typed", func(p Picture) bool { return p.Sum != before.Sum })
	if err != nil {
		t.Fatal(err)
	}
	t.Log("after typing:", after)
	c.eventually("the file", func() bool {
		out, err := exec.Command("docker", "exec", c.name, "cat", "/home/user/file").Output()
		return err == nil && string(out) == "hello\n"
	})
	const green = "#00aa00"
	if after.Most == green {
		t.Fatal("it is green already")
	}
	if err := d.Type(Paint(`[ "$(cat ~/file)" = other ]`, "#aa0000") + Paint(`[ "$(cat ~/file)" = hello ]`, green)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), "the file's content", func(p Picture) bool { return p.Most == green }); err != nil {
		t.Fatal(err)
	}
	file := artifact(t, "desktop-docker.png")
	if err := d.Screenshot(file); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(content, []byte("\x89PNG")) {
		t.Fatalf("no screenshot: %v", err)
	}
}

// The canvas of a desktop on which nothing runs is the background and nothing else: Blank must
// detect it, or it would prove nothing for the others.
func TestAnEmptyDesktopIsBlank(t *testing.T) {
	c := startContainer(t)
	d := c.open()
	if err := d.Login(password); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), "a desktop", func(p Picture) bool { return !p.Blank() }); err != nil {
		t.Fatal(err)
	}
	if err := d.Type("exit\n"); err != nil {
		t.Fatal(err)
	}
	empty, err := d.Await(t.Context(), "an empty desktop", Picture.Blank)
	if err != nil {
		t.Fatal(err)
	}
	if empty.Width == 0 || empty.Common < 0.999 {
		t.Errorf("it is empty in another way: %v", empty)
	}
}

func TestAnotherPasswordIsRefused(t *testing.T) {
	c := startContainer(t)
	d := c.open()
	text, err := d.Refused(password[:8]) // as many as VNC's own check uses
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "not this session's password") {
		t.Errorf("the page shows %q", text)
	}
	for _, path := range []string{"/vnc.html", "/core/rfb.js", "/websockify"} {
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		response, err := client.Get(c.url + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode == http.StatusOK {
			t.Errorf("%s: %s without a password", path, response.Status)
		}
	}
}

func TestAHostWithoutAServerIsReported(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip(ErrNoBrowser)
	}
	ctx, cancel := context.WithTimeout(t.Context(), actionTimeout)
	defer cancel()
	d, err := Open(ctx, "http://none.desktops.test/", map[string]string{"*.desktops.test": "127.0.0.1:9"})
	if err == nil {
		d.Close()
		t.Fatal("a page without a server was opened")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it waited instead of failing: %v", err)
	}
}
