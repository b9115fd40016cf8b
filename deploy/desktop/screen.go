package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/screensaver"
	"github.com/jezek/xgb/xproto"
)

// background of the desktop, red, green and blue.
const background = 0x2e4057

// screen is a client of the X server.
type screen struct {
	mu         sync.Mutex
	connection *xgb.Conn
	root       xproto.Window
}

func init() { xgb.Logger.SetOutput(discard{}) }

// discard drops the log of xgb, which only repeats errors that it returns.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// openScreen connects to the server's socket, and paints the background.
func openScreen(socket string) (*screen, error) {
	raw, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	connection, err := xgb.NewConnNet(raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	s := &screen{connection: connection, root: xproto.Setup(connection).DefaultScreen(connection).Root}
	if err := s.prepare(); err != nil {
		connection.Close()
		return nil, err
	}
	return s, nil
}

func (s *screen) prepare() error {
	if err := screensaver.Init(s.connection); err != nil {
		return fmt.Errorf("querying the MIT-SCREEN-SAVER extension: %w", err)
	}
	err := xproto.ChangeWindowAttributesChecked(s.connection, s.root, xproto.CwBackPixel, []uint32{background}).Check()
	if err != nil {
		return fmt.Errorf("painting the background: %w", err)
	}
	return xproto.ClearAreaChecked(s.connection, false, s.root, 0, 0, 0, 0).Check()
}

// idle returns the time since a key was last pressed or the pointer last moved, by the X
// server's monotonic clock.
func (s *screen) idle() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := screensaver.QueryInfo(s.connection, xproto.Drawable(s.root)).Reply()
	if err != nil {
		return 0, err
	}
	if info == nil {
		return 0, errors.New("the X server is gone")
	}
	return time.Duration(info.MsSinceUserInput) * time.Millisecond, nil
}

// managed reports whether a window manager has announced itself on the root window,
// which it does once it handles new windows.
func (s *screen) managed() (bool, error) {
	const name = "_NET_SUPPORTING_WM_CHECK"
	s.mu.Lock()
	defer s.mu.Unlock()
	atom, err := xproto.InternAtom(s.connection, false, uint16(len(name)), name).Reply()
	if err != nil || atom == nil {
		return false, errors.Join(errors.New("asking for the window manager"), err)
	}
	property, err := xproto.GetProperty(s.connection, false, s.root, atom.Atom, xproto.AtomWindow, 0, 1).Reply()
	if err != nil || property == nil {
		return false, errors.Join(errors.New("asking for the window manager"), err)
	}
	return property.ValueLen == 1, nil
}

func (s *screen) close() { s.connection.Close() }
