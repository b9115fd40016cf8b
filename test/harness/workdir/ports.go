package workdir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Ports are from below the ephemeral range, from which the kernel assigns ports itself.
const (
	firstPort = 11000
	lastPort  = 32000
)

// ReservePorts returns n free TCP ports of 127.0.0.1 and reserves them for the fleet in dir,
// so that no other fleet takes them, even while a process of this one is down. A reservation
// lasts until dir is removed or ReleasePorts is called.
func ReservePorts(dir string, n int) ([]int, error) {
	var ports []int
	err := withPortRegistry(func(reserved map[int]string) error {
		for range 20 * (n + 10) {
			if len(ports) == n {
				return nil
			}
			port := firstPort + rand.IntN(lastPort-firstPort)
			if _, ok := reserved[port]; ok || !portIsFree(port) {
				continue
			}
			reserved[port] = dir
			ports = append(ports, port)
		}
		return errors.New("none free")
	})
	if err != nil {
		return nil, fmt.Errorf("reserving %d ports: %w", n, err)
	}
	return ports, nil
}

// ReleasePorts releases all ports reserved for dir.
func ReleasePorts(dir string) error {
	err := withPortRegistry(func(reserved map[int]string) error {
		for port, owner := range reserved {
			if owner == dir {
				delete(reserved, port)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("releasing ports: %w", err)
	}
	return nil
}

func portIsFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}

// withPortRegistry calls change with the reservations of all fleets of this user
// and stores the result. The registry is one file with a line for each port, under an
// exclusive lock, and is removed when it is empty.
func withPortRegistry(change func(reserved map[int]string) error) error {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("vdi-fleet-ports-%d", os.Getuid()))
	file, err := lockFile(path)
	if err != nil {
		return err
	}
	defer file.Close() // unlocks

	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	reserved := map[int]string{}
	for line := range strings.Lines(string(content)) {
		number, dir, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		port, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		if _, err := os.Stat(dir); err == nil {
			reserved[port] = dir
		}
	}
	if err := change(reserved); err != nil {
		return err
	}
	if len(reserved) == 0 {
		return os.Remove(path)
	}
	lines := make([]string, 0, len(reserved))
	for port, dir := range reserved {
		lines = append(lines, fmt.Sprintf("%d %s\n", port, dir))
	}
	slices.Sort(lines)
	return os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600)
}

// lockFile opens and locks the file, creating it if need be. It starts over if
// the file was removed between opening and locking.
func lockFile(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
			_ = file.Close()
			return nil, err
		}
		locked, err := file.Stat()
		if err == nil {
			if current, err := os.Stat(path); err == nil && os.SameFile(locked, current) {
				return file, nil
			}
		}
		_ = file.Close()
	}
}
