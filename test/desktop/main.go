// Command desktop is the sample desktop: a page to write and draw on, and the
// activity contract that every desktop image may implement. Until there is an
// image with a real one, tests run it beside a simulated Pod.
//
// # The activity contract
//
// A template names a path in spec.activity.path, by convention
// /.well-known/vdi/activity. On a GET of it, at the desktop's port and without
// asking who it is, the desktop answers 200 with
//
//	Content-Type: application/json
//
//	{"idleSeconds": 12.5}
//
// the seconds since its user last did anything: pressed a key, moved the pointer,
// whatever the desktop counts; from its start where there was nothing yet; by its
// own clock. Nothing else belongs into the answer, since any client of the
// member's gateway may read it. Asking is not activity. Anything else, such as
// 404, no answer within two seconds, text or a negative number, means "unknown",
// and never ends a session.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	passwordFile := flag.String("password-file", "", "file with the password of user \"desktop\", such as /etc/vdi/access/password; none: everybody is let in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen, *passwordFile)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "desktop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, passwordFile string) error {
	password := ""
	if passwordFile != "" {
		content, err := os.ReadFile(passwordFile)
		if err != nil {
			return fmt.Errorf("reading the password: %w", err)
		}
		password = strings.TrimSpace(string(content))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	server := &http.Server{Handler: newDesktop(password, time.Now), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Whoever is connected gets a moment to be answered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
