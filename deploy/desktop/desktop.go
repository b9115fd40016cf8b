package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// displayNumber of the X server, and display, its address.
	displayNumber = ":1"
	displaySocket = "/tmp/.X11-unix/X1"
	// vncSocket is the VNC socket of the X server.
	vncSocket = "/tmp/vdi-desktop-vnc.sock"
	// startTimeout limits the start of the X server.
	startTimeout = 30 * time.Second
	// serverGrace is the grace period of the X server once the programs have ended.
	serverGrace = 2 * time.Second
	// pollInterval is the interval at which starts and ends are polled.
	pollInterval = 50 * time.Millisecond
	// managerPause is the delay before an ended window manager is restarted.
	managerPause = time.Second
	// mark is the environment variable that identifies the desktop's programs, whatever
	// process started them.
	mark = "VDI_DESKTOP"
)

// program is a started process.
type program struct {
	command *exec.Cmd
	// ended is closed once the process has ended with err.
	ended chan struct{}
	err   error
}

func start(environment []string, dir string, argv ...string) (*program, error) {
	p := &program{command: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.command.Env, p.command.Dir = environment, dir
	p.command.Stdout, p.command.Stderr = os.Stdout, os.Stderr
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// desktop is an X server and its programs.
type desktop struct {
	display *program
	screen  *screen
	// marked is mark with the value of this desktop.
	marked string
	// ending is set once the window manager is not to be restarted.
	ending chan struct{}
}

// startDesktop starts the X server, the window manager and the first program.
func startDesktop(ctx context.Context, o options) (*desktop, error) {
	home, err := homeDirectory()
	if err != nil {
		return nil, err
	}
	// A restarted container has the files of the previous one.
	for _, leftOver := range []string{vncSocket, displaySocket, "/tmp/.X1-lock"} {
		if err := os.Remove(leftOver); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	// The X server warns if it creates the directory without being root.
	if err := os.MkdirAll(filepath.Dir(displaySocket), 0o777|os.ModeSticky); err != nil {
		return nil, err
	}
	environment := append(os.Environ(), "HOME="+home, "DISPLAY="+displayNumber)
	d := &desktop{marked: mark + "=" + rand.Text(), ending: make(chan struct{})}
	if d.display, err = start(environment, "/", xServer(o)...); err != nil {
		return nil, err
	}
	if d.screen, err = awaitScreen(ctx, d.display); err != nil {
		d.stop(0)
		return nil, err
	}
	environment = append(environment, d.marked)
	manager, err := start(environment, home, "openbox")
	if err == nil {
		// A window that exists before its manager gets no keyboard input until a click.
		if err = awaitManager(ctx, d.screen, manager); err == nil {
			_, err = start(environment, home, o.program...)
		}
		go d.keepManager(manager, environment, home)
	}
	if err != nil {
		d.stop(0)
		return nil, err
	}
	return d, nil
}

// xServer returns the command of the X server: no port, no VNC password (see the package's
// comment), any number of browsers at once, and no GL, whose drivers are not in the image.
func xServer(o options) []string {
	return []string{
		"Xtigervnc", displayNumber, "-desktop", "Desktop", "-geometry", o.geometry, "-depth", "24",
		"-rfbport", "-1", "-rfbunixpath", vncSocket, "-rfbunixmode", "0600", "-SecurityTypes", "None",
		"-AlwaysShared", "-noreset", "-nolisten", "tcp", "-extension", "GLX", "-s", "0",
	}
}

// homeDirectory returns $HOME if it is writable: without a home it is in the image, which may
// be read-only.
func homeDirectory() (string, error) {
	home := os.Getenv("HOME")
	if home != "" {
		probe, err := os.MkdirTemp(home, ".vdi-desktop-")
		if err == nil {
			return home, os.Remove(probe)
		}
		slog.Warn("The home is not writable: data is lost when the desktop ends", "home", home, "error", err)
	}
	home = filepath.Join(os.TempDir(), "home")
	return home, os.MkdirAll(home, 0o700)
}

// awaitScreen waits for the starting X server, and connects to it.
func awaitScreen(ctx context.Context, server *program) (*screen, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		s, err := openScreen(displaySocket)
		if err == nil {
			return s, nil
		}
		select {
		case <-server.ended:
			return nil, errors.Join(errors.New("the X server does not start"), server.err)
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the X server: %w", err)
		case <-time.After(pollInterval):
		}
	}
}

// awaitManager waits until the window manager handles new windows.
func awaitManager(ctx context.Context, s *screen, manager *program) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		managed, err := s.managed()
		if err != nil || managed {
			return err
		}
		select {
		case <-manager.ended:
			return errors.Join(errors.New("the window manager does not start"), manager.err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the window manager: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// keepManager restarts the window manager when it ends: without one, windows cannot be moved,
// and no program can be started.
func (d *desktop) keepManager(manager *program, environment []string, home string) {
	for {
		<-manager.ended
		select {
		case <-d.ending:
			return
		case <-time.After(managerPause):
		}
		slog.Warn("The window manager has ended and is restarted", "error", manager.err)
		var err error
		if manager, err = start(environment, home, "openbox"); err != nil {
			slog.Error("The window manager could not be restarted", "error", err)
			return
		}
	}
}

// stop ends the programs within their grace period, then the X server.
func (d *desktop) stop(grace time.Duration) {
	close(d.ending)
	d.stopPrograms(time.Now().Add(grace))
	if d.screen != nil {
		d.screen.close()
	}
	_ = d.display.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-d.display.ended:
	case <-time.After(serverGrace):
		_ = d.display.command.Process.Kill()
	}
}

// stopPrograms signals each program once, and waits until all have ended.
func (d *desktop) stopPrograms(deadline time.Time) {
	signaled := map[int]bool{}
	for time.Now().Before(deadline) {
		running := processesWith(d.marked)
		if len(running) == 0 {
			return
		}
		for _, pid := range running {
			if signaled[pid] {
				continue
			}
			signaled[pid] = true
			// A shell ends on the first signal only, most others on the second. An error
			// means that the process has already ended.
			_ = syscall.Kill(pid, syscall.SIGHUP)
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		time.Sleep(pollInterval)
	}
}

// processesWith returns the processes with a variable in their environment, except this one.
func processesWith(variable string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is valid
	var found []int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // of another user, or ended
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/environ", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		if strings.Contains("\x00"+string(content), "\x00"+variable+"\x00") {
			found = append(found, pid)
		}
	}
	return found
}
