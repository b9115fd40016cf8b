// Package bulk keeps work on very many objects from delaying what concerns one object: it limits the rate
// at which those are reconciled for which there may be nothing to do, and what somebody waits for takes turns
// with the others.
package bulk
