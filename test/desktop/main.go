// Command desktop is the sample desktop: a page to write and draw on, and the activity contract
// that every desktop image may implement. Tests run it beside a simulated Pod, or as the image of
// a real one.
//
// # The activity contract
//
// A template names a path in spec.activity.path, by convention
// /.well-known/vdi/activity. On a GET of it, at the desktop's port and without
// authentication, the desktop answers 200 with
//
//	Content-Type: application/json
//
//	{"idleSeconds": 12.5}
//
// the seconds since its user last did anything that the desktop counts, such as pressing a key or
// moving the pointer, or since its start, by its own clock. Nothing else belongs in the answer,
// since any client of the member's gateway may read it. The query is not activity, nor is a probe,
// or a page that is open and polls by itself. Any other answer, such as 404, a redirect, more than
// 4 KiB, text or a negative number, or none within two seconds, means "unknown", and never ends a
// session: an image that can't measure its idle time returns an error, not an invented number.
//
// Measure it with a monotonic clock. An image that serves no HTTP sets the annotation
// vdi.kasm.io/activity on its Pod instead: any new value of it is activity.
//
// This desktop counts page loads, and what the page's script reports by POST /activity: keyboard
// and pointer, at most once in five seconds. Activity within these is reported at their end, so
// that the reported idle time is never too long, and at most five seconds too short.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/desktop/app"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:6901", "address to serve on; port 0 for a free one")
	passwordFile := flag.String("password-file", "", "file with the password of user \"desktop\", such as /etc/vdi/access/password; none: every user is admitted")
	home := flag.String("home", "", "folder in which what the user writes is kept, by PUT and GET of /notes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen, *passwordFile, *home, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "desktop:", err)
		os.Exit(1)
	}
}

// run serves the desktop until ctx ends, and prints to out where it listens.
func run(ctx context.Context, address, passwordFile, home string, out io.Writer) error {
	password, err := readPassword(passwordFile)
	if err != nil {
		return fmt.Errorf("reading the password: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening on", listener.Addr())
	server := &http.Server{Handler: app.New(app.Options{Title: "Sample desktop", Password: password, Home: home}), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Open connections get a moment to be answered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// readPassword returns the password in the file, or "" if no file is named.
func readPassword(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(content))
	if password == "" {
		// An empty password would admit every user.
		return "", fmt.Errorf("%s is empty", file)
	}
	return password, nil
}
