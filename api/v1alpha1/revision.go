package v1alpha1

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
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
