package main

import (
	// The time zones and the authorities of public certificates, which the image
	// has no files of: it is this binary and nothing else. Neither the API servers
	// nor the link are verified by these authorities, they have their own; whatever
	// else is dialled over TLS is. Files of the system, where there are any, go
	// before both.
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
