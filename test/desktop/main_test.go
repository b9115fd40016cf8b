package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/desktop/app"
)

func passwordFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestItPrintsItsAddressAndServesUntilItIsStopped(t *testing.T) {
	file := passwordFile(t, "open sesame\n")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, "127.0.0.1:0", file, "", writer)
		_ = writer.Close()
		ended <- err
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatalf("it ended before it listened: %v", <-ended)
	}
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok || strings.HasSuffix(address, ":0") {
		t.Fatalf("it prints %q", line)
	}
	for _, request := range []struct {
		path, password string
		want           int
	}{
		{app.ActivityPath, "", http.StatusOK},
		{"/", "", http.StatusUnauthorized},
		{"/", "open sesame", http.StatusOK}, // the file's newline is not part of it
	} {
		if got := status(ctx, t, "http://"+address+request.path, request.password); got != request.want {
			t.Errorf("GET %s with password %q: %d, want %d", request.path, request.password, got, request.want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func status(ctx context.Context, t *testing.T, url, password string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		request.SetBasicAuth(app.DefaultUsername, password)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}

func TestItDoesNotStartWithoutThePasswordThatItRequires(t *testing.T) {
	for name, file := range map[string]string{
		"an empty file":    passwordFile(t, "\n"),
		"no file anywhere": filepath.Join(t.TempDir(), "password"),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			var out bytes.Buffer
			if err := run(ctx, "127.0.0.1:0", file, "", &out); err == nil || out.Len() > 0 {
				t.Errorf("it started: %v, %q", err, out.String())
			}
		})
	}
}
