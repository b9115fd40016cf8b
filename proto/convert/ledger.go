package convert

// Ledger holds the hash that one side last sent or received of each assignment, by a key
// of the caller's. Its digest is updated with each change. The zero value is empty.
type Ledger[K comparable] struct {
	items  map[K]ledgerItem
	digest Digest
}

type ledgerItem struct {
	hash   uint64
	bucket uint8
}

// Set records the hash of an assignment.
func (l *Ledger[K]) Set(key K, bucket int, hash uint64) {
	l.Delete(key)
	if l.items == nil {
		l.items = map[K]ledgerItem{}
	}
	l.items[key] = ledgerItem{hash: hash, bucket: uint8(bucket)}
	l.digest.Add(bucket, hash)
}

// Delete removes an assignment.
func (l *Ledger[K]) Delete(key K) {
	if old, ok := l.items[key]; ok {
		l.digest.Remove(int(old.bucket), old.hash)
		delete(l.items, key)
	}
}

// DeleteBuckets removes all assignments in some buckets.
func (l *Ledger[K]) DeleteBuckets(buckets BucketSet) {
	for key, item := range l.items {
		if buckets.Has(int(item.bucket)) {
			l.Delete(key)
		}
	}
}

// Keys returns the keys of the assignments in some buckets, in no order.
func (l *Ledger[K]) Keys(buckets BucketSet) (keys []K) {
	for key, item := range l.items {
		if buckets.Has(int(item.bucket)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Clear removes all assignments.
func (l *Ledger[K]) Clear() { *l = Ledger[K]{} }

// Has reports whether the ledger has an assignment, and in which bucket.
func (l *Ledger[K]) Has(key K) (bucket int, ok bool) {
	item, ok := l.items[key]
	return int(item.bucket), ok
}

// Len returns the number of assignments.
func (l *Ledger[K]) Len() int { return len(l.items) }

// Digest returns the digest of all; it must not be changed and is valid until the next
// call of another method.
func (l *Ledger[K]) Digest() *Digest { return &l.digest }
