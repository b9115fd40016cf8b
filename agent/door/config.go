package door

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

const (
	// ConfigMapName is the name of the ConfigMap that the agent keeps for the door, in the namespace of both.
	ConfigMapName = "vdi-door"
	// ConfigEntry has a Config.
	ConfigEntry = "config.json"
	// InForceEntry is "true" once browsers are led to the door.
	InForceEntry = "inForce"
)

// Config is what the hub sends about the console. The agent stores it in the ConfigMap.
type Config struct {
	// ConsoleOrigin is the origin of the console: scheme, host and port.
	ConsoleOrigin string `json:"consoleOrigin"`
	// Domain below which the hosts of the member's desktops are.
	Domain string `json:"domain"`
	// Keys are the public keys of passes (Ed25519), by ID.
	Keys map[string][]byte `json:"keys"`
}

// ParseConfig returns the configuration of a ConfigMap's entry.
func ParseConfig(stored string) (*Config, error) {
	c := &Config{}
	if err := json.Unmarshal([]byte(stored), c); err != nil {
		return nil, fmt.Errorf("reading %s of ConfigMap %s: %w", ConfigEntry, ConfigMapName, err)
	}
	return c, c.Validate()
}

// Validate returns all errors of the configuration.
func (c *Config) Validate() error {
	var errs []error
	if u, err := url.Parse(c.ConsoleOrigin); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || c.ConsoleOrigin != u.Scheme+"://"+u.Host {
		errs = append(errs, fmt.Errorf("%q is not the origin of a console", c.ConsoleOrigin))
	}
	if problems := validation.IsDNS1123Subdomain(c.Domain); problems != nil {
		errs = append(errs, fmt.Errorf("%q is not a domain: %s", c.Domain, strings.Join(problems, ", ")))
	}
	for id, key := range c.Keys {
		if len(key) != ed25519.PublicKeySize {
			errs = append(errs, fmt.Errorf("public key %s has %d bytes, not %d", id, len(key), ed25519.PublicKeySize))
		}
	}
	return errors.Join(errs...)
}

// console is the console of a valid configuration.
type console struct {
	// origin of its pages, and the host of that without a port.
	origin, host string
	keys         visit.Keys
}

// newConsole returns the console of a valid configuration.
func newConsole(c *Config) *console {
	out := &console{origin: c.ConsoleOrigin, keys: visit.Keys{}}
	if u, err := url.Parse(c.ConsoleOrigin); err == nil {
		out.host = u.Hostname()
	}
	for id, key := range c.Keys {
		out.keys[id] = key
	}
	return out
}

// pageOf returns the address of the page of a desktop's session.
func (c *console) pageOf(d Desktop) string {
	return c.origin + "/s/" + d.Session.Namespace + "/" + d.Session.Name
}

// crossSite reports whether a browser treats the console and a desktop's host as different sites.
func (c *console) crossSite(host string) bool { return visit.CrossSite(c.host, host) }
