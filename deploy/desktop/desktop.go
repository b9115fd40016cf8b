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
	// displayNumber of the X server, and where it is found.
	displayNumber = ":1"
	displaySocket = "/tmp/.X11-unix/X1"
	// vncSocket is where the X server speaks VNC, to whoever may open the file.
	vncSocket = "/tmp/vdi-desktop-vnc.sock"
	// startTimeout is how long the X server may take to answer.
	startTimeout = 30 * time.Second
	// serverGrace is how long the X server may take to end, once nobody uses it.
	serverGrace = 2 * time.Second
	// look is how often what starts or ends is looked at.
	look = 50 * time.Millisecond
	// managerPause is how long a window manager that ended stays away.
	managerPause = time.Second
	// mark is the variable by which the desktop's programs are known, whoever
	// started them.
	mark = "VDI_DESKTOP"
)

// program is one that was started.
type program struct {
	command *exec.Cmd
	// ended is closed when it does not run any more, and err then says how it went.
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

// desktop is an X server and what runs on it.
type desktop struct {
	display *program
	screen  *screen
	// marked is mark with this desktop's value.
	marked string
	// ending: no window manager is to be started again.
	ending chan struct{}
}

// startDesktop returns once the window manager and the first program run.
func startDesktop(ctx context.Context, o options) (*desktop, error) {
	home, err := homeDirectory()
	if err != nil {
		return nil, err
	}
	// A container that is started again finds what the one before has left.
	for _, leftOver := range []string{vncSocket, displaySocket, "/tmp/.X1-lock"} {
		if err := os.Remove(leftOver); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	// The X server complains of making it itself, unless it is root.
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
		// A window that is there before its manager gets no keyboard until a click.
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

// xServer is its command: no port, no password of VNC's own (see the package's
// comment), any number of browsers at once, and no GL, whose drivers are not in
// the image.
func xServer(o options) []string {
	return []string{
		"Xtigervnc", displayNumber, "-desktop", "Desktop", "-geometry", o.geometry, "-depth", "24",
		"-rfbport", "-1", "-rfbunixpath", vncSocket, "-rfbunixmode", "0600", "-SecurityTypes", "None",
		"-AlwaysShared", "-noreset", "-nolisten", "tcp", "-extension", "GLX", "-s", "0",
	}
}

// homeDirectory is $HOME if it can be written to: that of a template without a
// home lies in the image, which may be read-only.
func homeDirectory() (string, error) {
	home := os.Getenv("HOME")
	if home != "" {
		probe, err := os.MkdirTemp(home, ".vdi-desktop-")
		if err == nil {
			return home, os.Remove(probe)
		}
		slog.Warn("The home can't be written to: what is saved is lost at the end", "home", home, "error", err)
	}
	home = filepath.Join(os.TempDir(), "home")
	return home, os.MkdirAll(home, 0o700)
}

// awaitScreen connects to an X server that is starting.
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
		case <-time.After(look):
		}
	}
}

// awaitManager returns once the window manager takes new windows.
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
		case <-time.After(look):
		}
	}
}

// keepManager starts the window manager again when it ends: without one, windows
// can't be moved, and no program can be started.
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
			slog.Error("There is no window manager any more", "error", err)
			return
		}
	}
}

// stop ends the programs within their grace, then the X server.
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

// stopPrograms tells each once, and waits until none is left.
func (d *desktop) stopPrograms(deadline time.Time) {
	told := map[int]bool{}
	for time.Now().Before(deadline) {
		running := processesWith(d.marked)
		if len(running) == 0 {
			return
		}
		for _, pid := range running {
			if told[pid] {
				continue
			}
			told[pid] = true
			// A shell heeds the first alone, most others the second. A process that
			// has ended meanwhile is what was asked for.
			_ = syscall.Kill(pid, syscall.SIGHUP)
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		time.Sleep(look)
	}
}

// processesWith are those whose environment has a variable, this one's own apart.
func processesWith(variable string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is a good one
	var found []int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // another's, or gone
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
