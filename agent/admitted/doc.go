// Package admitted has an informer see what is in the namespaces where the agent
// may work, and ask for no others: who admits sessions to a namespace lets the
// agent read Secrets there, and nowhere else.
//
// Admitted are the namespaces that carry the label, and those that still hold an
// assignment though somebody has taken the label off. Each kind is one informer
// all the same, whose list is the lists of these namespaces one after the other,
// and whose watch is their watches at once. The namespaces are part of what is
// watched: one that is admitted joins at once.
package admitted
