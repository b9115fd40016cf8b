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
	// proofDomain and termDomain separate the kinds of proofs that are made with the key.
	proofDomain   = "vdi.kasm.io/placement"
	termDomain    = "vdi.kasm.io/hub-term"
	proofKeyBytes = sha256.Size
)

// Proofs makes and checks the proofs in assignments, that a hub with this key assigned an
// epoch of a session to a member. Reports of epochs that the hub's state does not have are
// accepted only with a proof. It also makes the proofs of the terms that are sent to members.
type Proofs struct {
	Client client.Client
	// Live reads from the API server: the hub's cache does not have the Secret.
	Live client.Reader
	// Namespace of the hub.
	Namespace string

	key atomic.Pointer[[]byte]
}

// Prepare reads the key, or creates it. It must return before a proof is made or checked;
// later calls do nothing.
func (p *Proofs) Prepare(ctx context.Context) error {
	if p.key.Load() != nil {
		return nil
	}
	name := types.NamespacedName{Namespace: p.Namespace, Name: v1alpha1.PlacementKeySecret}
	stored, made, err := secret.Once(ctx, p.Live, p.Client, name, "the key of the proofs of placement", func() (map[string][]byte, error) {
		key := make([]byte, proofKeyBytes)
		_, _ = rand.Read(key) // it never fails: see crypto/rand
		return map[string][]byte{v1alpha1.PlacementKey: key}, nil
	})
	if err != nil {
		return err
	}
	if made {
		log.FromContext(ctx).Info("Created the key of the proofs of placement", "secret", name)
	}
	key := stored.Data[v1alpha1.PlacementKey]
	if len(key) != proofKeyBytes {
		return fmt.Errorf(
			"secret %s/%s of the proofs of placement can't be used and is not replaced: %q has %d bytes, not %d; "+
				"restore it from a backup, or delete it and restart the hub: it creates another, and assignments in members "+
				"of sessions that are not placed there any more then run until they are deleted there",
			name.Namespace, name.Name, v1alpha1.PlacementKey, len(key), proofKeyBytes)
	}
	p.key.Store(&key)
	return nil
}

// of returns the proof that an epoch of a session was assigned to a member.
func (p *Proofs) of(member, session types.UID, epoch int64) string {
	return p.sign(epoch, proofDomain, string(member), string(session))
}

// Term returns the proof that a member was sent a term of the hub.
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

// Proven reports, in constant time, whether a proof shows that an epoch of a session was
// assigned to a member.
func (p *Proofs) Proven(member, session types.UID, epoch int64, proof string) bool {
	return hmac.Equal([]byte(proof), []byte(p.of(member, session, epoch)))
}

// Proves reports whether a report has the proof that its epoch of the session was assigned
// to the member.
func (p *Proofs) Proves(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment) bool {
	return s != nil && reported != nil && p.Proven(member, s.UID, reported.Spec.Epoch, reported.Spec.Proof)
}
