package app

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
)

// mostNotes is the limit of what a user may write, in bytes.
const mostNotes = 1 << 20

// notes are the user's notes, kept in the home: they outlive the desktop if the home does.
type notes struct{ file string }

func (n notes) read(w http.ResponseWriter, _ *http.Request) {
	text, err := os.ReadFile(n.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(text)
}

func (n notes) write(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostNotes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err := replace(n.file, text); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// replace replaces the file's content atomically: what was acknowledged is stored, whenever the
// desktop is killed.
func replace(file string, content []byte) error {
	next, err := os.CreateTemp(filepath.Dir(file), ".notes-*")
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}
