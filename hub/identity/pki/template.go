package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/netip"
	"net/url"
	"time"
)

// Lifetimes. That of agents' certificates is an option.
const (
	// CALifetime of the hub's CA.
	CALifetime = 10 * 365 * 24 * time.Hour
	// ServingLifetime of the hub's certificate, which is renewed when a third of it is
	// left.
	ServingLifetime = 90 * 24 * time.Hour
	// ClockTolerance is how far an agent's clock may be off, either way, for the hub's
	// certificate to be valid.
	ClockTolerance = ServingLifetime / 3
	// Backdate is how long before its issue an agent's certificate becomes valid. Only
	// hubs verify it, whose clocks may differ.
	Backdate = 5 * time.Minute
)

// SerialBytes is the number of random bytes of a serial number.
const SerialBytes = 16

// Serial returns a serial number: positive, and never 0.
func Serial(random [SerialBytes]byte) *big.Int {
	random[0] = random[0]&0x7f | 0x40
	return new(big.Int).SetBytes(random[:])
}

// SerialText returns a serial number in hexadecimal digits.
func SerialText(serial *big.Int) string { return serial.Text(16) }

// AgentCertificate returns the template of an agent's client certificate, whose only name
// is the URI.
func AgentCertificate(issuer *x509.Certificate, serial *big.Int, uri *url.URL, now time.Time, lifetime time.Duration) *x509.Certificate {
	c := leaf(issuer, serial, uri, now, lifetime)
	c.Subject.CommonName = "vdi-agent"
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return c
}

// ServingCertificate returns the template of the hub's server certificate for the DNS
// names and IP addresses that agents dial.
func ServingCertificate(issuer *x509.Certificate, serial *big.Int, uri *url.URL, names []string, now time.Time) *x509.Certificate {
	c := leaf(issuer, serial, uri, now, ServingLifetime)
	c.Subject.CommonName = "vdi-hub"
	c.NotBefore = now.Add(-ClockTolerance)
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if address, err := netip.ParseAddr(name); err == nil {
			c.IPAddresses = append(c.IPAddresses, address.AsSlice())
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	return c
}

func leaf(issuer *x509.Certificate, serial *big.Int, uri *url.URL, now time.Time, lifetime time.Duration) *x509.Certificate {
	end := now.Add(lifetime)
	if end.After(issuer.NotAfter) {
		end = issuer.NotAfter
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"vdi-fleet"}},
		URIs:                  []*url.URL{uri},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
}

// CACertificate returns the template of a CA that issues only leaf certificates.
func CACertificate(serial *big.Int, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial,
		// The serial number distinguishes the CAs of a rotation.
		Subject:               pkix.Name{Organization: []string{"vdi-fleet"}, CommonName: "vdi-hub-ca " + SerialText(serial)},
		NotBefore:             now.Add(-ClockTolerance),
		NotAfter:              now.Add(CALifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// RenewalDue reports whether the hub's certificate must be renewed.
func RenewalDue(serving *x509.Certificate, now time.Time) bool {
	return now.After(serving.NotAfter.Add(-ClockTolerance))
}
