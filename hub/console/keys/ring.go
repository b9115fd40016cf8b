package keys

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// rotateEvery is for how long a key is used to encrypt.
	rotateEvery = 7 * 24 * time.Hour
	// lead is how long before its use a key is stored, so that every replica has it by then.
	lead = time.Hour
	// keep is how long a key is accepted after its successor is in use.
	keep = 24 * time.Hour
	// size of a key: AES-256.
	size = 32
)

// Key is a key with the time of its use.
type Key struct {
	// ID names the key in what is encrypted with it.
	ID string `json:"id"`
	// Key is the key itself.
	Key []byte `json:"key"`
	// NotBefore is when the key begins to be used.
	NotBefore time.Time `json:"notBefore"`
}

// Ring is the keys that are used or accepted, in the order of their use.
type Ring struct {
	// Login are the keys of logins.
	Login []Key `json:"login"`
}

// parse returns the ring of a stored value.
func parse(stored []byte) (Ring, error) {
	var r Ring
	if err := json.Unmarshal(stored, &r); err != nil {
		return Ring{}, err
	}
	if len(r.Login) == 0 {
		return Ring{}, fmt.Errorf("it has no key")
	}
	for i, k := range r.Login {
		switch {
		case k.ID == "" || len(k.Key) != size || k.NotBefore.IsZero():
			return Ring{}, fmt.Errorf("key %d is incomplete", i)
		case i > 0 && k.NotBefore.Before(r.Login[i-1].NotBefore):
			return Ring{}, fmt.Errorf("key %d is older than the one before it", i)
		}
	}
	return r, nil
}

// current returns the index of the key to encrypt with, -1 if the ring is empty.
func (r Ring) current(now time.Time) int {
	for i, k := range slices.Backward(r.Login) {
		if !k.NotBefore.After(now) {
			return i
		}
	}
	return min(0, len(r.Login)-1)
}

// rotated returns the ring with the keys that are needed now and without those that are not accepted any
// more, and whether that is another ring. made returns a new key.
func (r Ring) rotated(now time.Time, made func(notBefore time.Time) Key) (Ring, bool) {
	keys := slices.Clone(r.Login)
	switch last := len(keys) - 1; {
	case last < 0:
		keys = append(keys, made(now))
	case !now.Before(keys[last].NotBefore.Add(rotateEvery - lead)):
		keys = append(keys, made(now.Add(lead)))
	}
	for len(keys) > 1 && !now.Before(keys[1].NotBefore.Add(keep)) {
		keys = keys[1:]
	}
	return Ring{Login: keys}, len(keys) != len(r.Login) || keys[0].ID != r.Login[0].ID
}

// due returns the time until the ring is to be rotated next.
func (r Ring) due(now time.Time) time.Duration {
	next := r.Login[len(r.Login)-1].NotBefore.Add(rotateEvery - lead)
	if len(r.Login) > 1 {
		if drop := r.Login[1].NotBefore.Add(keep); drop.Before(next) {
			next = drop
		}
	}
	return max(next.Sub(now), time.Second)
}
