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
	// ServingLifetime of the hub's own certificate, which is renewed when a third
	// of it is left.
	ServingLifetime = 90 * 24 * time.Hour
	// ClockTolerance is by how much an agent's clock may be wrong, either way, and
	// the agent still finds valid what the hub shows it.
	ClockTolerance = ServingLifetime / 3
	// Backdate is how long before its issue the validity of an agent's certificate
	// begins. The hub alone judges it, by the clock that it was issued by, but the
	// clocks of two hubs may differ.
	Backdate = 5 * time.Minute
)

// SerialBytes is how much chance is in a serial number.
const SerialBytes = 16

// Serial makes a serial number: positive, and never 0.
func Serial(random [SerialBytes]byte) *big.Int {
	random[0] = random[0]&0x7f | 0x40
	return new(big.Int).SetBytes(random[:])
}

// SerialText is a serial number as it is kept.
func SerialText(serial *big.Int) string { return serial.Text(16) }

// AgentCertificate is for a member's agent: its only name is the URI, and it
// serves to dial alone.
func AgentCertificate(issuer *x509.Certificate, serial *big.Int, uri *url.URL, now time.Time, lifetime time.Duration) *x509.Certificate {
	c := leaf(issuer, serial, uri, now, lifetime)
	c.Subject.CommonName = "vdi-agent"
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return c
}

// ServingCertificate is the hub's own, for the names that agents dial: addresses
// of IP are told from names of DNS. It serves to listen alone.
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

// CACertificate is of a CA that issues nothing but leaves.
func CACertificate(serial *big.Int, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial,
		// The serial number in it tells the CAs of a rotation from each other.
		Subject:               pkix.Name{Organization: []string{"vdi-fleet"}, CommonName: "vdi-hub-ca " + SerialText(serial)},
		NotBefore:             now.Add(-ClockTolerance),
		NotAfter:              now.Add(CALifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// RenewalDue is whether the hub's own certificate must be renewed.
func RenewalDue(serving *x509.Certificate, now time.Time) bool {
	return now.After(serving.NotAfter.Add(-ClockTolerance))
}
