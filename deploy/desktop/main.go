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

// options of a desktop. Its arguments are the program that is started on it.
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
	flags.StringVar(&o.passwordFile, "password-file", "/etc/vdi/access/password", "file with the password that a browser is asked for")
	flags.BoolVar(&o.noPassword, "no-password", false, "let everybody in who reaches the port, for templates with access.mode None")
	flags.StringVar(&o.page, "page", "/usr/share/novnc", "directory of noVNC")
	flags.StringVar(&o.geometry, "geometry", "1280x800", "size of the desktop until a browser asks for another")
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
		os.Exit(2) // flag has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o)
	stop()
	if err != nil {
		slog.Error("The desktop ends", "error", err)
		os.Exit(1)
	}
}

// run serves a desktop until ctx ends, or something ends without which there is
// none. The port opens once there is a desktop to see.
func run(ctx context.Context, o options) error {
	var gate *door
	if !o.noPassword {
		gate = newDoor(o.passwordFile)
		if _, err := gate.password(); err != nil {
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
		Handler:           newHandler(ctx, o.page, vncSocket, gate, d.screen),
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
		slog.Info("The desktop was asked to stop")
		return nil
	}
}
