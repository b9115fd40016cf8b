// Package lego replaces the ACME client of that import path, which Traefik imports and which
// is not available as a module everywhere. It declares the names that Traefik uses, without
// a client: a Traefik that is built with it routes as usual, and obtains no certificates. A
// user who configures a certificate resolver gets ErrNoClient.
package lego

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/registration"
)

// DirectoryURLLetsEncrypt is the default authority.
const DirectoryURLLetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// ErrNoClient is the error of every request for a certificate in this build.
var ErrNoClient = errors.New("this Traefik was built without an ACME client")

// Config is the configuration of a Client.
type Config struct {
	CADirURL, UserAgent string
	HTTPClient          *http.Client
	Certificate         struct{ Timeout time.Duration }
}

// NewConfig returns a configuration for a user's account.
func NewConfig(any) *Config { return &Config{} }

// Client is never returned.
type Client struct {
	Certificate  Certifier
	Challenge    Challenges
	Registration Registrar
}

// NewClient returns ErrNoClient.
func NewClient(*Config) (*Client, error) { return nil, ErrNoClient }

// CreateCertPool returns ErrNoClient.
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, ErrNoClient }

// Certifier obtains no certificates.
type Certifier struct{}

// Obtain returns ErrNoClient.
func (Certifier) Obtain(context.Context, certificate.ObtainRequest) (*certificate.Resource, error) {
	return nil, ErrNoClient
}

// Renew returns ErrNoClient.
func (Certifier) Renew(context.Context, certificate.Resource, *certificate.RenewOptions) (*certificate.Resource, error) {
	return nil, ErrNoClient
}

// Challenges is never used.
type Challenges struct{}

// SetDNS01Provider returns ErrNoClient.
func (Challenges) SetDNS01Provider(challenge.Provider, ...any) error { return ErrNoClient }

// SetHTTP01Provider returns ErrNoClient.
func (Challenges) SetHTTP01Provider(challenge.Provider, ...any) error { return ErrNoClient }

// SetTLSALPN01Provider returns ErrNoClient.
func (Challenges) SetTLSALPN01Provider(challenge.Provider, ...any) error { return ErrNoClient }

// Registrar registers no account.
type Registrar struct{}

// Register returns ErrNoClient.
func (Registrar) Register(context.Context, registration.RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, ErrNoClient
}

// RegisterWithExternalAccountBinding returns ErrNoClient.
func (Registrar) RegisterWithExternalAccountBinding(context.Context, registration.RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, ErrNoClient
}
