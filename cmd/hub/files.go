package main

import (
	// The time zones and the public certificate authorities, since the image contains
	// this binary alone. API servers and the link have their own authorities; all other
	// TLS connections are verified by these. Files of the system, if there are any, take
	// precedence.
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
