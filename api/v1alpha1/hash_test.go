package v1alpha1_test

import (
	"testing"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestSecretDataHashDistinguishesData(t *testing.T) {
	type data = map[string][]byte
	base := vdi.SecretDataHash(data{"a": []byte("1"), "b": []byte("2")})
	for name, other := range map[string]data{
		"nothing":           nil,
		"another value":     {"a": []byte("1"), "b": []byte("3")},
		"another key":       {"a": []byte("1"), "c": []byte("2")},
		"one key less":      {"a": []byte("1")},
		"one key more":      {"a": []byte("1"), "b": []byte("2"), "c": nil},
		"values exchanged":  {"a": []byte("2"), "b": []byte("1")},
		"a border moved":    {"a": []byte("1b"), "": []byte("2")},
		"all in one value":  {"a": []byte("1\x01b\x012")},
		"a key without any": {"a": []byte("1"), "b": nil},
	} {
		if vdi.SecretDataHash(other) == base {
			t.Errorf("%s: the same hash", name)
		}
	}
	if vdi.SecretDataHash(data{"b": []byte("2"), "a": []byte("1")}) != base {
		t.Error("the same data, and another hash")
	}
	if vdi.SecretDataHash(nil) != vdi.SecretDataHash(data{}) {
		t.Error("no data and empty data differ")
	}
}
