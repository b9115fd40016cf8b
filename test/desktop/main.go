// Command desktop is the sample desktop: a page to write and draw on, and the
// activity contract that every desktop image may implement. Until there is an
// image with a real one, tests run it beside a simulated Pod.
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
// the seconds since its user last did anything: pressed a key, moved the pointer,
// whatever the desktop counts; from its start where there was nothing yet; by its
// own clock. Nothing else belongs into the answer, since any client of the
// member's gateway may read it. The query is not activity, nor is a probe, or a page
// that is open and polls by itself. Anything else, such as 404, a
// redirect, no answer within two seconds, more than 4 KiB, text or a negative
// number, means "unknown", and never ends a session: an image that has lost track
// reports so by an error, not by a number that it made up.
//
// Measure it by a clock that no correction of the time of day moves. An image
// that serves no HTTP sets the annotation vdi.kasm.io/activity on its Pod
// instead: any new value of it is activity.
//
// What this desktop counts is a page load, and what the page's script reports by
// POST /activity: keyboard and pointer, once in five seconds at the most. What
// was done within those is reported at their end, so that a desktop never claims
// to be idle for longer than it is; it may claim up to five seconds less.
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
	server := &http.Server{Handler: newDesktop(password, home, time.Now), ReadHeaderTimeout: 5 * time.Second}
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

// readPassword is the password in the file, "" where there is no file to read.
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
		// It would admit every user that the file was to keep out.
		return "", fmt.Errorf("%s is empty", file)
	}
	return password, nil
}
