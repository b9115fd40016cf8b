package v1alpha1

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// SecretDataHash is the value of AnnotationSecretHash for a Secret's data: by
// it the member finds out that a Secret was edited by hand that the hub sent.
// Keys and values count with their lengths, so that none can pass for others.
func SecretDataHash(data map[string][]byte) string {
	sum := sha256.New()
	add := func(part []byte) {
		sum.Write(binary.AppendUvarint(nil, uint64(len(part))))
		sum.Write(part)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		add([]byte(key))
		add(data[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
