// Package lego stands in for the ACME client of that import path, which Traefik is
// linked with and no module proxy at hand has. It has the names that Traefik uses,
// and no client: a Traefik that was built with it routes as ever, and obtains no
// certificates. A user who configures a certificate resolver reads ErrNoClient.
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

// DirectoryURLLetsEncrypt is the authority where none is configured.
const DirectoryURLLetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// ErrNoClient is what this build answers to every request for a certificate.
var ErrNoClient = errors.New("this Traefik was built without an ACME client")

// Config of a client.
type Config struct {
	CADirURL, UserAgent string
	HTTPClient          *http.Client
	Certificate         struct{ Timeout time.Duration }
}

// NewConfig for a user's account.
func NewConfig(any) *Config { return &Config{} }

// Client that is never returned.
type Client struct {
	Certificate  Certifier
	Challenge    Challenges
	Registration Registrar
}

// NewClient fails with ErrNoClient.
func NewClient(*Config) (*Client, error) { return nil, ErrNoClient }

// CreateCertPool fails with ErrNoClient.
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, ErrNoClient }

// Certifier obtains no certificates.
type Certifier struct{}

// Obtain fails with ErrNoClient.
func (Certifier) Obtain(context.Context, certificate.ObtainRequest) (*certificate.Resource, error) {
	return nil, ErrNoClient
}

// Renew fails with ErrNoClient.
func (Certifier) Renew(context.Context, certificate.Resource, *certificate.RenewOptions) (*certificate.Resource, error) {
	return nil, ErrNoClient
}

// Challenges that are never used.
type Challenges struct{}

// SetDNS01Provider fails with ErrNoClient.
func (Challenges) SetDNS01Provider(challenge.Provider, ...any) error { return ErrNoClient }

// SetHTTP01Provider fails with ErrNoClient.
func (Challenges) SetHTTP01Provider(challenge.Provider, ...any) error { return ErrNoClient }

// SetTLSALPN01Provider fails with ErrNoClient.
func (Challenges) SetTLSALPN01Provider(challenge.Provider, ...any) error { return ErrNoClient }

// Registrar registers no account.
type Registrar struct{}

// Register fails with ErrNoClient.
func (Registrar) Register(context.Context, registration.RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, ErrNoClient
}

// RegisterWithExternalAccountBinding fails with ErrNoClient.
func (Registrar) RegisterWithExternalAccountBinding(context.Context, registration.RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, ErrNoClient
}
