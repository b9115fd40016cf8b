package e2e

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// imageConfig is the configuration of an image.
type imageConfig struct {
	ID, Architecture string `json:",omitempty"`
	Config           struct {
		User       string
		Entrypoint []string
		Env        []string
		Labels     map[string]string
	}
	RootFS struct{ Layers []string }
}

func TestImagesAreOneStaticBinaryAndTheSameBytesEachTime(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "docker", "info").CombinedOutput(); err != nil {
		if os.Getenv("E2E") != "" {
			t.Fatalf("no Docker: %s", out)
		}
		t.Skip("needs a Docker daemon")
	}
	// Another folder, and files of another time, as another clone has them.
	clone := t.TempDir()
	command(t, root, "sh", "-c", "{ git ls-files -co --exclude-standard; echo .git; } | tar -cT - | tar -xmC "+clone)
	first := buildImages(t, root, "e2e-images-1")
	second := buildImages(t, clone, "e2e-images-2")
	for name, image := range first {
		t.Run(name, func(t *testing.T) {
			if image.ID != second[name].ID {
				t.Errorf("built twice: %s with layers %v, and %s with %v", image.ID, image.RootFS.Layers, second[name].ID, second[name].RootFS.Layers)
			}
			if image.Config.User != "65532:65532" || image.Architecture != runtime.GOARCH || !slices.Equal(image.Config.Entrypoint, []string{"/" + name}) {
				t.Errorf("%+v", image)
			}
			for _, label := range []string{"title", "description", "licenses", "version", "revision", "created"} {
				if image.Config.Labels["org.opencontainers.image."+label] == "" {
					t.Errorf("no label %s: %v", label, image.Config.Labels)
				}
			}
			checkBinary(t, name, content(t, "vdi-"+name+":e2e-images-1", name))
		})
	}
}

func buildImages(t *testing.T, dir, tag string) map[string]imageConfig {
	t.Helper()
	built := map[string]imageConfig{}
	script := exec.CommandContext(t.Context(), filepath.Join("tools", "images.sh"))
	script.Dir = dir
	script.Env = append(os.Environ(), "VERSION=test", "PLATFORMS=", "GO_IMAGE=", "HUB_IMG=vdi-hub:"+tag, "AGENT_IMG=vdi-agent:"+tag)
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("tools/images.sh: %v\n%s", err, out)
	}
	for _, name := range []string{"hub", "agent"} {
		image := "vdi-" + name + ":" + tag
		t.Cleanup(func() { _ = exec.Command("docker", "rmi", image).Run() })
		var inspected []imageConfig
		if err := json.Unmarshal(command(t, ".", "docker", "image", "inspect", image), &inspected); err != nil {
			t.Fatal(err)
		}
		built[name] = inspected[0]
	}
	return built
}

// content returns the one file of an image. Any other file fails the test.
func content(t *testing.T, image, name string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	command(t, ".", "docker", "create", "--name", name+"-content", image)
	defer command(t, ".", "docker", "rm", name+"-content")
	command(t, ".", "docker", "export", "-o", file, name+"-content")
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	var binary []byte
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return binary
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case header.Name == name:
			if header.FileInfo().Mode().Perm() != 0o755 || header.Uid != 0 {
				t.Errorf("%s: mode %v of user %d: its user must not be able to write it", name, header.FileInfo().Mode(), header.Uid)
			}
			if binary, err = io.ReadAll(reader); err != nil {
				t.Fatal(err)
			}
		case header.Typeflag == tar.TypeReg && header.Size > 0:
			t.Errorf("the image has a file %s", header.Name)
		}
	}
}

func checkBinary(t *testing.T, name string, binary []byte) {
	t.Helper()
	program, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("it is not static")
		}
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"build\t-trimpath=true", "build\tCGO_ENABLED=0", "dep\tgolang.org/x/crypto/x509roots/fallback\t"} {
		if !strings.Contains(info.String(), want) {
			t.Errorf("%s: no %q in\n%s", name, want, info)
		}
	}
	// Go's zones are a zip file in the binary.
	if !bytes.Contains(binary, []byte("Antarctica/Troll")) {
		t.Error("no time zones")
	}
}

func command(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}
