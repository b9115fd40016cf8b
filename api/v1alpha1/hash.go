package v1alpha1

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// RevisionOf returns the revision of a template: a hash of its spec in ten characters of
// a DNS label. Equal quantities in different notations have the same hash.
func RevisionOf(spec *TemplateSpec) (string, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("hashing template: %w", err)
	}
	sum := sha256.Sum256(raw)
	return nameEncoding.EncodeToString(sum[:])[:hashLength], nil
}

// SecretDataHash returns the value of AnnotationSecretHash for a Secret's data, by which
// the member detects drift of a Secret that the hub sent. Each key and value is hashed
// with its length, so that different data never yield the same input.
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
