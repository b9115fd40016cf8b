// Package live keeps open pages up to date: it marks pages whose content may have changed, and sends each
// changed fragment of a page as a server-sent event.
//
// Invariants: a change costs a mark and nothing else until it is rendered, so that a page which reads slowly
// delays no other and skips to the newest content; no page is sent more than four times a second; a client
// that does not read for 20 s is disconnected.
package live
