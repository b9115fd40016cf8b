package convert

// Ledger is what one side has told the other of each assignment, or has been
// told: the hash alone, by a key of the caller's. Its digest is kept as items
// come and go. The zero value is empty.
type Ledger[K comparable] struct {
	items  map[K]ledgerItem
	digest Digest
}

type ledgerItem struct {
	hash   uint64
	bucket uint8
}

// Set notes what was told of an assignment last.
func (l *Ledger[K]) Set(key K, bucket int, hash uint64) {
	l.Delete(key)
	if l.items == nil {
		l.items = map[K]ledgerItem{}
	}
	l.items[key] = ledgerItem{hash: hash, bucket: uint8(bucket)}
	l.digest.Add(bucket, hash)
}

// Delete notes that an assignment is gone.
func (l *Ledger[K]) Delete(key K) {
	if old, ok := l.items[key]; ok {
		l.digest.Remove(int(old.bucket), old.hash)
		delete(l.items, key)
	}
}

// DeleteBuckets forgets all that is in some buckets.
func (l *Ledger[K]) DeleteBuckets(buckets BucketSet) {
	for key, item := range l.items {
		if buckets.Has(int(item.bucket)) {
			l.Delete(key)
		}
	}
}

// Keys are all that is in some buckets, in no order.
func (l *Ledger[K]) Keys(buckets BucketSet) (keys []K) {
	for key, item := range l.items {
		if buckets.Has(int(item.bucket)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Clear forgets all.
func (l *Ledger[K]) Clear() { *l = Ledger[K]{} }

// Has is whether anything was told of an assignment, and in which bucket it is.
func (l *Ledger[K]) Has(key K) (bucket int, ok bool) {
	item, ok := l.items[key]
	return int(item.bucket), ok
}

// Len counts the assignments.
func (l *Ledger[K]) Len() int { return len(l.items) }

// Digest of all; it must not be changed and is good until the next call of
// another method.
func (l *Ledger[K]) Digest() *Digest { return &l.digest }
