// Package bulk limits the rate at which very many objects are reconciled for which there may be
// nothing to do, so that what concerns one object does not wait behind them.
package bulk
