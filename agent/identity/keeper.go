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
	"github.com/vdi-fleet/vdi-fleet/agent/objects"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// idleInterval is how long the keeper sleeps when only the link or an operator can change
// anything.
const idleInterval = time.Minute

// Options of a Keeper.
type Options struct {
	// Namespace of the Secrets.
	Namespace string
	// Member is the name of the MemberCluster, for messages.
	Member string
	// HubAddress is host:port of the hub, HubServerName a DNS name of its
	// certificate; by default the host.
	HubAddress, HubServerName string
	// TokenFile has a join token, and CAHashes the hashes of the hub's CAs, if they are not
	// in the Secret v1alpha1.AgentBootstrap.
	TokenFile string
	CAHashes  []string
	// AgentVersion, for display.
	AgentVersion string
}

// Keeper manages the agent's identity. It implements link.Credentials, and is a
// manager.Runnable that needs leader election, as the link does.
type Keeper struct {
	options Options
	member  Member
	// readClocks reads the system's clocks and a random number.
	readClocks func() reading
	wake       chan struct{}

	// op is held during requests to the API server and the hub. It guards these fields.
	op     sync.Mutex
	store  store
	state  state
	loaded bool
	// failures counts failed rotations in a row; the next attempt is at notBefore.
	failures  int
	notBefore time.Duration

	// mu is never held during a request. It guards these fields, which the link reports or
	// which were logged.
	mu sync.Mutex
	// connected is the credential of a connection that the hub has accepted.
	connected *link.Credential
	// refused has the serials of certificates that were refused since one was accepted, and
	// refusal the last reason.
	refused map[string]bool
	refusal error
	// rotateNow is set once the hub has requested a rotation.
	rotateNow bool
	replaced  chan struct{}
	lastError string
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
		store:   store{Store: objects.Store{Live: member.Reader, Client: member.Client, Namespace: options.Namespace}},
		refused: map[string]bool{}, replaced: make(chan struct{}),
	}
}

// NeedLeaderElection returns true: only the leader connects to the hub.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Current implements link.Credentials. It also joins: without a connection, a new join token
// may be required.
func (k *Keeper) Current(ctx context.Context) (*link.Credential, error) {
	k.op.Lock()
	defer k.op.Unlock()
	if err := k.load(ctx); err != nil {
		return nil, err
	}
	joinErr := k.join(ctx)
	selected := k.selectPair()
	switch {
	case selected == nil:
		k.reportError(ctx, false, joinErr)
		return nil, joinErr
	case joinErr != nil:
		k.reportError(ctx, true, joinErr)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return selected.credential(k.replaced), nil
}

// selectPair returns the newest pair that was not refused. If all were, all are retried in
// turn: an operator may change what the hub accepts.
func (k *Keeper) selectPair() *pair {
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
	k.connected, k.lastError = c, ""
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
	if c != nil && isCertificateError(err) {
		k.refused[c.Certificate.Leaf.SerialNumber.Text(16)] = true
		k.refusal = err
	}
}

// RotateNow implements link.Credentials.
func (k *Keeper) RotateNow() {
	k.mu.Lock()
	k.rotateNow = true
	k.mu.Unlock()
	k.signal()
}

func (k *Keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// load reads the stored state, unless it is loaded.
func (k *Keeper) load(ctx context.Context) error {
	if k.loaded {
		return nil
	}
	loaded, read, err := k.store.load(ctx, k.readClocks())
	if !read {
		return err
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "ignoring a part of the agent's identity that can't be read")
	}
	k.state, k.loaded = loaded, true
	return nil
}

// save stores a state, and then sets it.
func (k *Keeper) save(ctx context.Context, s state) error {
	if err := k.store.save(ctx, s); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			k.loaded = false // Another process has written it.
		}
		return err
	}
	k.state = s
	return nil
}

// reportError reports an error once: in a log line unless the caller returns the error, and
// by an event and a metric if it requires an operator.
func (k *Keeper) reportError(ctx context.Context, toLog bool, err error) {
	k.mu.Lock()
	repeated := k.lastError == err.Error()
	k.lastError = err.Error()
	k.mu.Unlock()
	if repeated {
		return
	}
	if toLog {
		log.FromContext(ctx).Error(err, "retrying with a stored certificate")
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

// event records an event on the bootstrap Secret, where the remedy applies.
func (k *Keeper) event(severity, reason, note string) {
	secret := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: k.options.Namespace, Name: v1alpha1.AgentBootstrap,
	}
	k.member.Recorder.Eventf(secret, nil, severity, reason, "Join", "%.1000s", note)
}
