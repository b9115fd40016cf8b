// Package nsinformer limits informers to the namespaces where the agent may work:
// whoever admits sessions to a namespace lets the agent read Secrets there, and
// nowhere else.
//
// Admitted are the namespaces that carry the label, and those that still hold an
// assignment although the label was removed. Each kind is still one informer: its
// list is the lists of these namespaces one after the other, and its watch is their
// watches at once. The namespaces are watched too: one that is admitted is added at
// once.
package nsinformer
