package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	epoch := flag.Int64("epoch", 0, "time of all files in the image, in seconds since 1970")
	platform := flag.String("platform", "", "platform of the image, such as linux/arm64")
	flag.Parse()
	if flag.NArg() != 3 {
		fmt.Fprintln(os.Stderr, "usage: image --epoch SECONDS --platform OS/ARCH IN.tar OUT.tar NAME:TAG")
		os.Exit(2)
	}
	if err := settle(flag.Arg(0), flag.Arg(1), flag.Arg(2), *platform, time.Unix(*epoch, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func settle(in, out, tag, platform string, at time.Time) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	image, err := tarball.ImageFromPath(in, nil)
	if err != nil {
		return fmt.Errorf("reading %s: %w", in, err)
	}
	if image, err = mutate.Time(image, at); err != nil {
		return fmt.Errorf("setting times: %w", err)
	}
	if image, err = with(image, platform); err != nil {
		return err
	}
	if err := tarball.WriteToFile(out, ref, image); err != nil {
		return fmt.Errorf("writing %s: %w", out, err)
	}
	digest, err := image.ConfigName()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

// with returns the image with the platform, and without other traces of its build.
func with(image v1.Image, platform string) (v1.Image, error) {
	p, err := v1.ParsePlatform(platform)
	if err != nil {
		return nil, fmt.Errorf("--platform: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	config.Config.Image, config.Config.Hostname = "", "" // parent's and container's
	return mutate.ConfigFile(image, config)
}
