package v1alpha1

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// RevisionOf is the revision of a template: a hash of its spec, the same for
// specs that mean the same (quantities are compared as amounts). Ten
// characters of a DNS label.
func RevisionOf(spec *TemplateSpec) (string, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("hashing template: %w", err)
	}
	sum := sha256.Sum256(raw)
	return nameEncoding.EncodeToString(sum[:])[:hashLength], nil
}
