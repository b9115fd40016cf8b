package observer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Read reads logs from first to last. A missing log is empty; an incomplete last line is
// torn.
func Read(paths ...string) (History, error) {
	r := newReader(paths)
	until := now()
	err := r.read()
	r.tearLast()
	return r.ledger.history(until), err
}

// now is called before the logs are read, so that they are complete until then.
func now() Moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every Linux has it
	}
	return Moment(t.Nano())
}

// A reader reads the new records of logs.
type reader struct {
	ledger *ledger
	logs   []*source
}

// source is the state of reading one log.
type source struct {
	path    string
	inode   uint64
	offset  int64
	partial []byte // of a line that has not ended
}

func newReader(paths []string) *reader {
	r := &reader{ledger: newLedger()}
	for _, path := range paths {
		r.logs = append(r.logs, &source{path: path})
	}
	return r
}

func (r *reader) read() error {
	var errs []error
	for _, log := range r.logs {
		if err := r.readLog(log); err != nil {
			errs = append(errs, fmt.Errorf("reading log of containers: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (r *reader) readLog(log *source) error {
	file, err := os.Open(log.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	// The file was replaced or starts over: what was recorded before remains.
	inode := info.Sys().(*syscall.Stat_t).Ino
	if log.inode != 0 && inode != log.inode || info.Size() < log.offset {
		if len(log.partial) > 0 {
			r.ledger.tear(log.path, log.partial)
		}
		log.offset, log.partial = 0, nil
	}
	log.inode = inode
	fresh, err := io.ReadAll(io.NewSectionReader(file, log.offset, 1<<62))
	if err != nil {
		return err
	}
	log.offset += int64(len(fresh))
	return r.take(log, append(log.partial, fresh...))
}

// take adds all complete lines.
func (r *reader) take(log *source, content []byte) error {
	var errs []error
	for {
		raw, after, ended := bytes.Cut(content, []byte("\n"))
		if !ended {
			log.partial = bytes.Clone(content)
			return errors.Join(errs...)
		}
		content = after
		l, torn, err := parse(raw)
		switch {
		case err != nil:
		case torn:
			r.ledger.tear(log.path, raw)
		default:
			err = r.ledger.add(log.path, l)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
}

func (r *reader) tearLast() {
	for _, log := range r.logs {
		if len(log.partial) > 0 {
			r.ledger.tear(log.path, log.partial)
			log.partial = nil
		}
	}
}
