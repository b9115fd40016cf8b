// Package tickets redeems AccessTickets: the requests of users of kubeconfigs, whom the API server has
// authenticated, for a login of the console.
//
// Invariants: a ticket is redeemed at most once, by whoever has its secret, within 60 s of its creation; and
// none is redeemed unless the API server was seen to deny a ticket in the name of somebody else, since
// otherwise anybody who may create one could log in as anybody.
package tickets
