package identity

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// idle is how long the keeper sleeps when only the link or a person can change
// anything; they wake it.
const idle = time.Minute

// Options of a Keeper.
type Options struct {
	// Namespace of the Secrets.
	Namespace string
	// Member is the name of the MemberCluster, for messages.
	Member string
	// HubAddress is host:port of the hub, HubServerName a DNS name of its
	// certificate; by default the host.
	HubAddress, HubServerName string
	// TokenFile holds a join token and CAHashes the hashes of the hub's CAs,
	// where they are not given by the Secret v1alpha1.AgentBootstrap.
	TokenFile string
	CAHashes  []string
	// AgentVersion, for display.
	AgentVersion string
}

// Keeper keeps the agent's identity. It is link.Credentials, and a
// manager.Runnable that needs leader election, as the link does.
type Keeper struct {
	options Options
	member  Member
	// readClocks reads the clocks of the system, and a random number.
	readClocks func() reading
	wake       chan struct{}

	// op is held while the Secret or the hub is asked; it guards these.
	op     sync.Mutex
	store  store
	state  state
	loaded bool
	// failures of rotations in a row; the next attempt is at notBefore.
	failures  int
	notBefore time.Duration

	// mu is never held while anything waits. It guards what the link has reported and what
	// was logged.
	mu sync.Mutex
	// connected is the credential of a connection that the hub has accepted.
	connected *link.Credential
	// refused are the serials of certificates that were refused since one was accepted, and
	// refusal the last reason.
	refused map[string]bool
	refusal error
	// asked is set once the hub has requested a rotation.
	asked     bool
	replaced  chan struct{}
	complaint string
}

var _ link.Credentials = (*Keeper)(nil)

// Member is what a Keeper needs of the member.
type Member struct {
	// Reader must not be a cache.
	Reader   client.Reader
	Client   client.Client
	Recorder events.EventRecorder
	// Fingerprint is the UID of the cluster's kube-system namespace.
	Fingerprint func(context.Context) (string, error)
}

// NewKeeper returns a Keeper that Start runs.
func NewKeeper(options Options, member Member) *Keeper {
	return &Keeper{
		options: options, member: member,
		readClocks: func() reading {
			return reading{wall: time.Now(), boot: boottime.Now(), random: rand.Float64()}
		},
		wake:    make(chan struct{}, 1),
		store:   store{reader: member.Reader, client: member.Client, namespace: options.Namespace},
		refused: map[string]bool{}, replaced: make(chan struct{}),
	}
}

// NeedLeaderElection returns true: only the leader connects to the hub.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Current implements link.Credentials. It is called only when there is no connection,
// which is when a new join token is of use.
func (k *Keeper) Current(ctx context.Context) (*link.Credential, error) {
	k.op.Lock()
	defer k.op.Unlock()
	if err := k.load(ctx); err != nil {
		return nil, err
	}
	joinErr := k.join(ctx)
	chosen := k.choose()
	switch {
	case chosen == nil:
		k.complain(ctx, false, joinErr)
		return nil, joinErr
	case joinErr != nil:
		k.complain(ctx, true, joinErr)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return chosen.credential(k.replaced), nil
}

// choose returns the newest pair that was not refused. If all were, it logs that, and all
// are tried again in turn: an operator may change what the hub accepts.
func (k *Keeper) choose() *pair {
	k.mu.Lock()
	defer k.mu.Unlock()
	stored := k.state.pairs()
	for _, p := range stored {
		if !k.refused[p.serial()] {
			return p
		}
	}
	clear(k.refused)
	if len(stored) == 0 {
		return nil
	}
	return stored[0]
}

// Used implements link.Credentials.
func (k *Keeper) Used(c *link.Credential) {
	k.mu.Lock()
	k.connected, k.complaint = c, ""
	k.mu.Unlock()
	metricJoinNeeded.Set(0)
	k.signal()
}

// Ended implements link.Credentials.
func (k *Keeper) Ended(c *link.Credential, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.connected == c {
		k.connected = nil
	}
	if c != nil && refusal(err) {
		k.refused[c.Certificate.Leaf.SerialNumber.Text(16)] = true
		k.refusal = err
	}
}

// RotateNow implements link.Credentials.
func (k *Keeper) RotateNow() {
	k.mu.Lock()
	k.asked = true
	k.mu.Unlock()
	k.signal()
}

func (k *Keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// load reads what is stored, unless what is in hand is known to be it.
func (k *Keeper) load(ctx context.Context) error {
	if k.loaded {
		return nil
	}
	loaded, read, err := k.store.load(ctx, k.readClocks())
	if !read {
		return err
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "a part of the agent's identity can't be read, going on without it")
	}
	k.state, k.loaded = loaded, true
	return nil
}

// save makes a state durable, and only then the keeper's.
func (k *Keeper) save(ctx context.Context, s state) error {
	if err := k.store.save(ctx, s); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			k.loaded = false // Another process has written: read it.
		}
		return err
	}
	k.state = s
	return nil
}

// complain reports once what is wrong and, where only an operator can help, the remedy. It
// is logged only where the caller does not return it.
func (k *Keeper) complain(ctx context.Context, logged bool, err error) {
	k.mu.Lock()
	news := k.complaint != err.Error()
	k.complaint = err.Error()
	k.mu.Unlock()
	if !news {
		return
	}
	if logged {
		log.FromContext(ctx).Error(err, "the agent's identity is in trouble; its sessions go on meanwhile")
	}
	if !errors.As(err, &operatorError{}) {
		return
	}
	metricJoinNeeded.Set(1)
	k.event(corev1.EventTypeWarning, eventJoinNeeded, err.Error())
}

// Reasons of the keeper's events.
const (
	eventJoined     = "Joined"
	eventJoinNeeded = "JoinNeeded"
)

// event records an event on the bootstrap Secret, which the remedy changes.
func (k *Keeper) event(severity, reason, note string) {
	secret := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: k.options.Namespace, Name: v1alpha1.AgentBootstrap,
	}
	k.member.Recorder.Eventf(secret, nil, severity, reason, "Join", "%.1000s", note)
}
