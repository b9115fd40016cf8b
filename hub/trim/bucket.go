package trim

import (
	"hash/fnv"
	"strconv"
)

// buckets is the number of buckets: a large fleet has a dozen sessions in each.
const buckets = 8192

// Bucket returns a bucket for a value, for an index of the cache by values of which nearly every
// object has its own. An index keeps two sets for each value, 0.6 KiB of memory for a single
// object; one by buckets keeps two entries of sets. A lookup in the index finds all objects of
// the bucket, and the caller selects those with the value.
func Bucket(value string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(value)) // never fails
	return strconv.Itoa(int(h.Sum32() % buckets))
}
