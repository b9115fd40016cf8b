package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options of a desktop. The arguments are the first program.
type options struct {
	listen       string
	passwordFile string
	noPassword   bool
	page         string
	geometry     string
	grace        time.Duration
	program      []string
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("vdi-desktop", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", ":6901", "address to serve on")
	flags.StringVar(&o.passwordFile, "password-file", "/etc/vdi/access/password", "file with the password of the login page")
	flags.BoolVar(&o.noPassword, "no-password", false, "let everybody in who reaches the port, for templates with access.mode None")
	flags.StringVar(&o.page, "page", "/usr/share/novnc", "directory of noVNC")
	flags.StringVar(&o.geometry, "geometry", "1280x800", "initial size of the desktop")
	flags.DurationVar(&o.grace, "grace", 20*time.Second, "how long programs may take to end; less than the Pod's own grace")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.program = flags.Args()
	if len(o.program) == 0 {
		o.program = []string{"xterm", "-maximized"}
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2) // flag has printed the error
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o)
	stop()
	if err != nil {
		slog.Error("The desktop failed", "error", err)
		os.Exit(1)
	}
}

// run serves a desktop until ctx ends, or a required process ends. The port opens once the
// desktop is ready.
func run(ctx context.Context, o options) error {
	var auth *login
	if !o.noPassword {
		auth = newLogin(o.passwordFile)
		if _, err := auth.password(); err != nil {
			return fmt.Errorf("reading the password: %w", err)
		}
	}
	d, err := startDesktop(ctx, o)
	if err != nil {
		return err
	}
	defer d.stop(o.grace)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	slog.Info("The desktop is ready", "address", listener.Addr().String())
	server := &http.Server{
		Handler:           newHandler(ctx, o.page, vncSocket, auth, d.screen),
		ReadHeaderTimeout: 10 * time.Second,
	}
	defer server.Close()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-d.display.ended:
		return errors.Join(errors.New("the X server has ended"), d.display.err)
	case <-ctx.Done():
		slog.Info("The desktop is stopping")
		return nil
	}
}
