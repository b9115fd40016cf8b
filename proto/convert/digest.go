package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Buckets is how many parts an inventory is divided into: enough that one change among
// 10,000 sessions requires the resync of only some 40 of them, and few enough that all
// their digests are 2 KiB.
const Buckets = 256

// BucketOf returns the bucket of a session's assignments: the first byte of a hash of its UID.
func BucketOf(uid string) int {
	sum := sha256.Sum256([]byte(uid))
	return int(sum[0])
}

// ReportHash returns a hash of a report without its own hash. Only those of one version
// of the agent are comparable: another one may have more fields.
func ReportHash(r *fleetv1.AssignmentReport) uint64 {
	own := r.ReportHash
	r.ReportHash = 0
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	r.ReportHash = own
	if err != nil {
		// Only a string that is not UTF-8 fails, which no API server stores.
		text = fmt.Append(nil, r)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// AssignedHash returns the hash of an assignment in the digest of the assigned set.
func AssignedHash(uid string, epoch int64, specHash string) uint64 {
	return ItemHash(uid, epoch, specHash, 0)
}

// ItemHash returns the hash of an assignment in a digest of the reported set. It ends each
// text with a zero byte, so that no two items have the same input, and is never 0, so that an
// item always changes a digest.
func ItemHash(uid string, epoch int64, specHash string, reportHash uint64) uint64 {
	var buffer [160]byte
	text := append(append(buffer[:0], uid...), 0)
	text = binary.BigEndian.AppendUint64(text, uint64(epoch))
	text = append(append(text, specHash...), 0)
	text = binary.BigEndian.AppendUint64(text, reportHash)
	sum := sha256.Sum256(text)
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// Digest is the sum of a set of assignments, by bucket. Sums are modulo 2^64, so that the order
// in which items are added and removed does not matter. The zero value is that of an empty set.
type Digest struct {
	buckets [Buckets]uint64
	count   int
}

// Add adds an item.
func (d *Digest) Add(bucket int, item uint64) { d.buckets[bucket] += item; d.count++ }

// Remove removes an item that was added.
func (d *Digest) Remove(bucket int, item uint64) { d.buckets[bucket] -= item; d.count-- }

// Len returns the number of items.
func (d *Digest) Len() int { return d.count }

// Sum returns the sum of all buckets.
func (d *Digest) Sum() (sum uint64) {
	for _, bucket := range d.buckets {
		sum += bucket
	}
	return sum
}

// Differing returns the buckets in which two digests are not equal.
func (d *Digest) Differing(other *Digest) (differ BucketSet) {
	for i := range d.buckets {
		if d.buckets[i] != other.buckets[i] {
			differ.Add(i)
		}
	}
	return differ
}

// DigestToWire converts a digest; that of an empty set has no buckets.
func DigestToWire(d *Digest) *fleetv1.InventoryDigest {
	w := &fleetv1.InventoryDigest{Assignments: uint32(d.count)}
	if d.count > 0 {
		w.Buckets = append(w.Buckets, d.buckets[:]...)
	}
	return w
}

// DigestFromWire converts a digest from its wire type.
func DigestFromWire(w *fleetv1.InventoryDigest) (*Digest, error) {
	d := &Digest{count: int(w.GetAssignments())}
	switch len(w.GetBuckets()) {
	case Buckets:
		copy(d.buckets[:], w.GetBuckets())
	case 0:
		if d.count > 0 {
			return nil, fmt.Errorf("buckets: none for %d assignments", d.count)
		}
	default:
		return nil, fmt.Errorf("buckets: %d instead of %d", len(w.GetBuckets()), Buckets)
	}
	return d, nil
}

// BucketSet is a set of buckets. The zero value is empty.
type BucketSet [Buckets / 8]byte

// AllBuckets returns the set of all buckets.
func AllBuckets() (all BucketSet) {
	for i := range all {
		all[i] = 0xff
	}
	return all
}

// Add adds a bucket to the set.
func (s *BucketSet) Add(bucket int) { s[bucket/8] |= 1 << (bucket % 8) }

// Has reports whether a bucket is in the set.
func (s BucketSet) Has(bucket int) bool { return s[bucket/8]&(1<<(bucket%8)) != 0 }

// Union adds another set.
func (s *BucketSet) Union(other BucketSet) {
	for i := range s {
		s[i] |= other[i]
	}
}

// Len returns the number of buckets.
func (s BucketSet) Len() (n int) {
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// BucketsToWire converts a set; an empty one has no bytes.
func BucketsToWire(s BucketSet) *fleetv1.InventoryRequest {
	if s.Len() == 0 {
		return &fleetv1.InventoryRequest{}
	}
	return &fleetv1.InventoryRequest{Buckets: s[:]}
}

// BucketsFromWire converts a set from its wire type. A short one contains no bucket
// beyond its end.
func BucketsFromWire(w *fleetv1.InventoryRequest) (s BucketSet, err error) {
	if len(w.GetBuckets()) > len(s) {
		return s, fmt.Errorf("buckets: %d bytes, more than %d", len(w.GetBuckets()), len(s))
	}
	copy(s[:], w.GetBuckets())
	return s, nil
}
