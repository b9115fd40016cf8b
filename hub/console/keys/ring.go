package keys

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

const (
	// rotateEvery is for how long a key is used.
	rotateEvery = 7 * 24 * time.Hour
	// lead is how long before its use a key is stored, so that every replica and every door has it by then.
	lead = time.Hour
	// keep is how long a key is accepted after its successor is in use.
	keep = 24 * time.Hour
	// size of a key: AES-256, or the seed of Ed25519.
	size = 32
)

// Key is a key with the time of its use.
type Key struct {
	// ID names the key in what is encrypted or signed with it.
	ID string `json:"id"`
	// Key is the key itself.
	Key []byte `json:"key"`
	// NotBefore is when the key begins to be used.
	NotBefore time.Time `json:"notBefore"`
}

// sequence is the keys of one use that are used or accepted, in the order of their use.
type sequence []Key

// Ring is the keys of the console.
type Ring struct {
	// Login are the keys of logins.
	Login sequence `json:"login"`
	// Visit are the keys of passes, seeds of Ed25519.
	Visit sequence `json:"visit"`
}

// parse returns the ring of a stored value. A console without doors has stored one without keys of passes.
func parse(stored []byte) (Ring, error) {
	var r Ring
	if err := json.Unmarshal(stored, &r); err != nil {
		return Ring{}, err
	}
	if len(r.Login) == 0 {
		return Ring{}, fmt.Errorf("it has no key")
	}
	for _, keys := range []sequence{r.Login, r.Visit} {
		if err := keys.validate(); err != nil {
			return Ring{}, err
		}
	}
	return r, nil
}

func (s sequence) validate() error {
	for i, k := range s {
		switch {
		case k.ID == "" || len(k.Key) != size || k.NotBefore.IsZero():
			return fmt.Errorf("key %d is incomplete", i)
		case i > 0 && k.NotBefore.Before(s[i-1].NotBefore):
			return fmt.Errorf("key %d is older than the one before it", i)
		}
	}
	return nil
}

// current returns the key to use now, of keys that are not empty.
func (s sequence) current(now time.Time) Key {
	for _, k := range slices.Backward(s) {
		if !k.NotBefore.After(now) {
			return k
		}
	}
	return s[0]
}

// rotated returns the keys that are needed now, without those that are not accepted any more, and whether these are
// others. made returns a new key.
func (s sequence) rotated(now time.Time, made func(notBefore time.Time) Key) (sequence, bool) {
	keys := slices.Clone(s)
	switch last := len(keys) - 1; {
	case last < 0:
		keys = append(keys, made(now))
	case !now.Before(keys[last].NotBefore.Add(rotateEvery - lead)):
		keys = append(keys, made(now.Add(lead)))
	}
	for len(keys) > 1 && !now.Before(keys[1].NotBefore.Add(keep)) {
		keys = keys[1:]
	}
	return keys, len(keys) != len(s) || keys[0].ID != s[0].ID
}

// due returns the time until the keys are to be rotated next.
func (s sequence) due(now time.Time) time.Duration {
	next := s[len(s)-1].NotBefore.Add(rotateEvery - lead)
	if len(s) > 1 {
		if drop := s[1].NotBefore.Add(keep); drop.Before(next) {
			next = drop
		}
	}
	return max(next.Sub(now), time.Second)
}

// rotated returns the ring with the keys that are needed now, and whether that is another ring.
func (r Ring) rotated(now time.Time, made func(notBefore time.Time) Key) (Ring, bool) {
	login, changed := r.Login.rotated(now, made)
	visits, others := r.Visit.rotated(now, made)
	return Ring{Login: login, Visit: visits}, changed || others
}

// due returns the time until the ring is to be rotated next.
func (r Ring) due(now time.Time) time.Duration { return min(r.Login.due(now), r.Visit.due(now)) }

// public returns the public keys of passes, as doors have them.
func (r Ring) public() visit.Keys {
	out := visit.Keys{}
	for _, k := range r.Visit {
		out[k.ID] = ed25519.NewKeyFromSeed(k.Key).Public().(ed25519.PublicKey)
	}
	return out
}
