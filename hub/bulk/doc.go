// Package bulk is a work queue in which what concerns one object does not wait behind what concerns
// very many.
package bulk
