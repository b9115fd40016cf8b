package guard

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"
)

func TestOptionsOfAGuard(t *testing.T) {
	client := ClientOptions{
		LeaseURL: "http://a:1", Key: publicText(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))),
		Namespace: "n", Name: "a", UID: "u", TimeFactor: 1,
	}
	good := Options{ClientOptions: client, PodIP: "::1", Port: 1, DesktopPort: 2, StartTimeout: time.Second}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		"--lease-url":     func(o *Options) { o.LeaseURL = "a:1" },
		"--key":           func(o *Options) { o.Key = "AAAA" },
		"--namespace":     func(o *Options) { o.Namespace = "" },
		"--uid":           func(o *Options) { o.UID = "" },
		"--pod-ip":        func(o *Options) { o.PodIP = "" },
		"--port":          func(o *Options) { o.Port = 2 },
		"--desktop-port":  func(o *Options) { o.DesktopPort = 70000 },
		"--start-timeout": func(o *Options) { o.StartTimeout = 0 },
		"--time-factor":   func(o *Options) { o.TimeFactor = 0 },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error that names %s, got %v", want, err)
		}
	}
}
