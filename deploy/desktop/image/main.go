// Command image writes a container image from root file systems, for `docker load`
// and `kind load image-archive`. Equal file systems give the same image, to the
// byte: what a layer has of clocks and of device nodes is left out, and no daemon
// has a say in it.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	o := options{}
	flag.StringVar(&o.out, "out", "", "archive to write")
	flag.StringVar(&o.tag, "tag", "", "name and tag of the image")
	flag.StringVar(&o.user, "user", "", "user and group, as numbers")
	flag.StringVar(&o.env, "env", "", "environment, as NAME=VALUE, separated by commas")
	flag.StringVar(&o.entry, "entrypoint", "", "entry point and its first arguments, separated by spaces")
	flag.StringVar(&o.arch, "arch", "amd64", "architecture, in Go's word")
	flag.Int64Var(&o.epoch, "epoch", 0, "time of the image and all its files, in seconds since 1970")
	flag.Parse()
	o.layers = flag.Args()
	if err := write(o); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options of an image. Its layers are tar files, the lowest first.
type options struct {
	out, tag, user, env, entry, arch string
	epoch                            int64
	layers                           []string
}

func write(o options) error {
	tag, err := name.NewTag(o.tag)
	if err != nil {
		return fmt.Errorf("reading the tag: %w", err)
	}
	made := time.Unix(o.epoch, 0).UTC()
	var layers []mutate.Addendum
	for _, file := range o.layers {
		layer, err := layerOf(file, made)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		layers = append(layers, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: made}}})
	}
	image, err := mutate.Append(empty.Image, layers...)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", o.arch, v1.Time{Time: made}
	config.Config = v1.Config{User: o.user, Entrypoint: strings.Fields(o.entry), WorkingDir: "/"}
	if o.env != "" {
		config.Config.Env = strings.Split(o.env, ",")
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	if err := tarball.WriteToFile(o.out, tag, image); err != nil {
		return err
	}
	digest, err := image.ConfigName()
	if err != nil {
		return err
	}
	fmt.Println(o.tag, digest)
	return nil
}

// layerOf a tar file, without its device nodes, which every runtime makes itself.
func layerOf(file string, made time.Time) (v1.Layer, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var plain bytes.Buffer
	in, out := tar.NewReader(bytes.NewReader(content)), tar.NewWriter(&plain)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeChar || header.Typeflag == tar.TypeBlock {
			continue
		}
		normalise(header, made)
		if err := out.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.Copy(out, in); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(plain.Bytes())), nil
	})
}

// normalise a file's header: numbers say who owns it, and every clock the same.
func normalise(header *tar.Header, made time.Time) {
	header.Name = strings.TrimPrefix(header.Name, "./")
	if header.Name == "" {
		header.Name = "./"
	}
	header.ModTime, header.AccessTime, header.ChangeTime = made, time.Time{}, time.Time{}
	header.Uname, header.Gname = "", ""
	header.PAXRecords, header.Format = nil, tar.FormatUnknown
}
