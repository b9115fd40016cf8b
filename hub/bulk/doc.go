// Package bulk keeps work on very many objects from delaying what concerns one object: it limits the rate
// at which those are reconciled for which there may be nothing to do, and dispatches urgent items alternately
// with the others.
package bulk
