package main

// The authorities of public certificates, for an image that has no files but the
// binary. Neither the API servers nor the link are verified by them, which have
// authorities of their own; whatever else is dialled over TLS is. Files of the
// system, where there are any, go before them.
import _ "golang.org/x/crypto/x509roots/fallback"
