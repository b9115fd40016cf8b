// Package door is the process before a member's desktops: it admits browsers by the console's passes (package
// proto/visit), supplies a desktop's own credentials, and forwards requests to the desktop's Pod. One Ingress or
// HTTPRoute leads all hosts of the member's domain to it.
//
// It needs neither hub nor agent: the agent stores the console's public keys in a ConfigMap, and assignments and Pods
// are in the member's API server. It has no identity of the agent, and writes nothing.
//
// Invariants: no byte reaches a desktop without a pass for that very session and epoch, and the nonce of the same
// browser; a desktop reads neither, and no page of another host sends it a request; a request for a host without
// a desktop learns nothing about which there are.
package door
