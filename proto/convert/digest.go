package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Buckets is how many parts an inventory is told apart in: enough that one
// change among 10,000 sessions asks for some 40 of them, and few enough that
// all their digests are 2 KiB.
const Buckets = 256

// BucketOf is the bucket that a session's assignments are in: the first byte
// of a hash of its UID.
func BucketOf(uid string) int {
	sum := sha256.Sum256([]byte(uid))
	return int(sum[0])
}

// ReportHash is a hash of all that a report says, its own hash apart. Only
// those of one version of the agent are comparable: another one may know
// fields that this one does not.
func ReportHash(r *fleetv1.AssignmentReport) uint64 {
	own := r.ReportHash
	r.ReportHash = 0
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	r.ReportHash = own
	if err != nil {
		// Only a string that is not UTF-8 does this, which no API server holds.
		text = fmt.Append(nil, r)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// ItemHash is what an assignment adds to a digest of the reported set.
func ItemHash(uid string, epoch int64, specHash string, reportHash uint64) uint64 {
	return itemHash(uid, epoch, specHash, reportHash)
}

// AssignedHash is what an assignment adds to the digest of the assigned set.
func AssignedHash(uid string, epoch int64, specHash string) uint64 {
	return itemHash(uid, epoch, specHash, 0)
}

// itemHash ends each text with a zero byte, so that no two items have the same
// input. It is never 0, so that an item always shows.
func itemHash(uid string, epoch int64, specHash string, reportHash uint64) uint64 {
	var room [160]byte
	text := append(append(room[:0], uid...), 0)
	text = binary.BigEndian.AppendUint64(text, uint64(epoch))
	text = append(append(text, specHash...), 0)
	text = binary.BigEndian.AppendUint64(text, reportHash)
	sum := sha256.Sum256(text)
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// Digest sums up a set of assignments by bucket. Sums are modulo 2^64, so that
// items come and go in any order. The zero value is that of nothing.
type Digest struct {
	buckets [Buckets]uint64
	count   int
}

// Add counts an item in, Remove counts it out.
func (d *Digest) Add(bucket int, item uint64) { d.buckets[bucket] += item; d.count++ }

// Remove counts an item out that was added.
func (d *Digest) Remove(bucket int, item uint64) { d.buckets[bucket] -= item; d.count-- }

// Len counts the items.
func (d *Digest) Len() int { return d.count }

// Sum of all buckets.
func (d *Digest) Sum() (sum uint64) {
	for _, bucket := range d.buckets {
		sum += bucket
	}
	return sum
}

// Differing are the buckets in which two digests are not equal.
func (d *Digest) Differing(other *Digest) (differ BucketSet) {
	for i := range d.buckets {
		if d.buckets[i] != other.buckets[i] {
			differ.Add(i)
		}
	}
	return differ
}

// DigestToWire writes a digest; that of nothing has no buckets.
func DigestToWire(d *Digest) *fleetv1.InventoryDigest {
	w := &fleetv1.InventoryDigest{Assignments: uint32(d.count)}
	if d.count > 0 {
		w.Buckets = append(w.Buckets, d.buckets[:]...)
	}
	return w
}

// DigestFromWire reads a digest.
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

// AllBuckets is the whole set.
func AllBuckets() (all BucketSet) {
	for i := range all {
		all[i] = 0xff
	}
	return all
}

// Add puts a bucket into the set.
func (s *BucketSet) Add(bucket int) { s[bucket/8] |= 1 << (bucket % 8) }

// Has is whether a bucket is in the set.
func (s BucketSet) Has(bucket int) bool { return s[bucket/8]&(1<<(bucket%8)) != 0 }

// Union adds another set.
func (s *BucketSet) Union(other BucketSet) {
	for i := range s {
		s[i] |= other[i]
	}
}

// Len counts the buckets.
func (s BucketSet) Len() (n int) {
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// BucketsToWire writes a set; an empty one has no bytes.
func BucketsToWire(s BucketSet) *fleetv1.InventoryRequest {
	if s.Len() == 0 {
		return &fleetv1.InventoryRequest{}
	}
	return &fleetv1.InventoryRequest{Buckets: s[:]}
}

// BucketsFromWire reads a set. One that is short names no bucket beyond its
// end.
func BucketsFromWire(w *fleetv1.InventoryRequest) (s BucketSet, err error) {
	if len(w.GetBuckets()) > len(s) {
		return s, fmt.Errorf("buckets: %d bytes, at most %d make sense", len(w.GetBuckets()), len(s))
	}
	copy(s[:], w.GetBuckets())
	return s, nil
}
