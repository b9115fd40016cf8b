package assignment

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
)

const (
	// proofDomain sets these proofs apart from anything else that may ever be
	// made with the key.
	proofDomain = "vdi.kasm.io/placement"
	// termDomain does the same for the proofs of terms.
	termDomain = "vdi.kasm.io/hub-term"
	// proofKeyBytes is the length of the key: that of the hash.
	proofKeyBytes = sha256.Size
)

// Proofs makes and checks the proofs that travel with assignments: that this
// hub, or one that had its state before it, gave an epoch of a session to a
// member. Only what bears one is believed of an epoch that the hub's state does
// not tell of. It also makes those of the terms that members are told.
type Proofs struct {
	Client client.Client
	// Live reads from the API server: the cache has no such Secret.
	Live client.Reader
	// Namespace of the hub.
	Namespace string

	key atomic.Pointer[[]byte]
}

// Prepare reads the key, or makes it where there is none. It must have returned
// before a proof is made or checked; later calls do nothing.
func (p *Proofs) Prepare(ctx context.Context) error {
	if p.key.Load() != nil {
		return nil
	}
	name := types.NamespacedName{Namespace: p.Namespace, Name: v1alpha1.PlacementKeySecret}
	stored, made, err := secret.Once(ctx, p.Live, p.Client, name, "the key of the proofs of placement", func() (map[string][]byte, error) {
		key := make([]byte, proofKeyBytes)
		_, _ = rand.Read(key) // It never fails.
		return map[string][]byte{v1alpha1.PlacementKey: key}, nil
	})
	if err != nil {
		return err
	}
	if made {
		log.FromContext(ctx).Info("Made the key of the proofs of placement", "secret", name)
	}
	key := stored.Data[v1alpha1.PlacementKey]
	if len(key) != proofKeyBytes {
		return fmt.Errorf(
			"secret %s/%s of the proofs of placement can't be used and is not touched: %q has %d bytes, not %d; "+
				"restore it from a backup, or delete it and restart the hub: another is made, and what members hold "+
				"of sessions that are not placed there any more is then left to run until somebody deletes it",
			name.Namespace, name.Name, v1alpha1.PlacementKey, len(key), proofKeyBytes)
	}
	p.key.Store(&key)
	return nil
}

// of is the proof that an epoch of a session was given to a member. It is the
// same each time.
func (p *Proofs) of(member, session types.UID, epoch int64) string {
	return p.sign(epoch, proofDomain, string(member), string(session))
}

// Term is the proof that a member was told a term of the hub. It is the same each
// time.
func (p *Proofs) Term(member types.UID, term int64) string {
	return p.sign(term, termDomain, string(member))
}

func (p *Proofs) sign(number int64, parts ...string) string {
	mac := hmac.New(sha256.New, *p.key.Load())
	for _, part := range parts {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	mac.Write([]byte(strconv.FormatInt(number, 10)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Proven reports whether a proof shows that an epoch of a session was given to a
// member. It takes as long for each wrong one.
func (p *Proofs) Proven(member, session types.UID, epoch int64, proof string) bool {
	return hmac.Equal([]byte(proof), []byte(p.of(member, session, epoch)))
}

// Proves is whether a report bears the proof that its epoch of the session was
// given to the member.
func (p *Proofs) Proves(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment) bool {
	if s == nil || reported == nil {
		return false
	}
	return p.Proven(member, s.UID, reported.Spec.Epoch, reported.Spec.Proof)
}
