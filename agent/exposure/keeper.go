package exposure

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/door"
	"github.com/vdi-fleet/vdi-fleet/agent/objects"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// This role is bound only where the chart enables the door.
// +kubebuilder:rbac:groups="",roleName=vdi-agent-door,namespace=vdi-system,resources=services,resourceNames=vdi-door,verbs=get
// +kubebuilder:rbac:groups="",roleName=vdi-agent-door,namespace=vdi-system,resources=configmaps,resourceNames=vdi-door,verbs=get;update;delete
// +kubebuilder:rbac:groups=networking.k8s.io,roleName=vdi-agent-door,namespace=vdi-system,resources=ingresses,resourceNames=vdi-door,verbs=get;update;delete
// +kubebuilder:rbac:groups=networking.k8s.io,roleName=vdi-agent-door,namespace=vdi-system,resources=ingresses,verbs=create
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,roleName=vdi-agent-door,namespace=vdi-system,resources=httproutes,resourceNames=vdi-door,verbs=get;update;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,roleName=vdi-agent-door,namespace=vdi-system,resources=httproutes,verbs=create

// Options of a Keeper.
type Options struct {
	// Store of the agent's own objects.
	Store objects.Store
	// Classes reads IngressClasses.
	Classes client.Reader
	// URL of the door's Service, by which the agent finds out whether the door answers.
	URL string
	// IngressClass of the Ingress; by default the cluster's default class.
	IngressClass string
	// Network has the member's parameters of rendering.
	Network render.Network
	// Restrictions of the member's administrator.
	Restrictions restriction.Settings
}

const (
	// checkEvery is how often the Ingress or HTTPRoute is checked, which others may have changed.
	checkEvery = time.Minute
	// retryAfter is the wait after a failure, and between two questions to a door that has not answered yet.
	retryAfter = 2 * time.Second
	// askTimeout is how long the door has to answer.
	askTimeout = 2 * time.Second
)

// Keeper keeps the objects of the door, in the agent's leader.
type Keeper struct {
	options Options
	http    *http.Client
	// changed receives a value when the hub has sent something, changes one when the door is in force or not any more.
	changed chan struct{}
	changes chan event.GenericEvent
	// loaded is closed once inForce is known.
	loaded chan struct{}

	mu sync.Mutex
	// sent is what the hub has sent last, nil for nothing since the agent started.
	sent    *fleetv1.DoorConfig
	inForce bool
	// problem is the last one that was logged.
	problem string
}

// NewKeeper returns a Keeper that Start runs.
func NewKeeper(o Options) *Keeper {
	return &Keeper{
		options: o, http: &http.Client{Timeout: askTimeout},
		changed: make(chan struct{}, 1), changes: make(chan event.GenericEvent, 1), loaded: make(chan struct{}),
	}
}

// NeedLeaderElection returns true: only the leader writes.
func (k *Keeper) NeedLeaderElection() bool { return true }

// SetDoor replaces what the hub sends (link.Door).
func (k *Keeper) SetDoor(config *fleetv1.DoorConfig) {
	k.mu.Lock()
	k.sent = config
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// InForce reports whether the door leads browsers to desktops (session.Door).
func (k *Keeper) InForce(ctx context.Context) (bool, error) {
	select {
	case <-k.loaded:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inForce, nil
}

// Changes receives an event when the door is in force, or not any more (session.Door).
func (k *Keeper) Changes() <-chan event.GenericEvent { return k.changes }

// Start keeps the objects until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := checkEvery
		if err := k.sync(ctx); err != nil {
			wait = retryAfter
			k.report(ctx, err.Error())
		} else {
			k.report(ctx, "")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
		case <-time.After(wait):
		}
	}
}

// report logs a problem once, until it is another one.
func (k *Keeper) report(ctx context.Context, problem string) {
	if problem != "" && problem != k.problem && ctx.Err() == nil {
		log.FromContext(ctx).WithName("exposure").Info("Browsers are not led to the door yet", "cause", problem)
	}
	k.problem = problem
}

// sync makes all objects as they are to be now.
func (k *Keeper) sync(ctx context.Context) error {
	stored := &corev1.ConfigMap{}
	if err := k.options.Store.Read(ctx, door.ConfigMapName, stored); err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", door.ConfigMapName, err)
	}
	inForce := stored.Data[door.InForceEntry] == "true"
	k.load(inForce)
	config, err := k.wanted(stored)
	switch {
	case err != nil:
		return err
	case config == nil:
		return nil // neither this process nor an earlier one knows a console
	case config.ConsoleOrigin == "":
		return k.retract(ctx, stored)
	}
	if violation := k.options.Restrictions.Host("*." + config.Domain); violation != "" {
		return fmt.Errorf("the Ingress of the door: %s", violation)
	}
	owner, err := k.owner(ctx)
	if err != nil {
		return err
	}
	if err := k.store(ctx, stored, config, owner, inForce); err != nil {
		return err
	}
	if !inForce {
		if err := k.ask(ctx); err != nil {
			return err
		}
	}
	if err := k.lead(ctx, config.Domain, owner); err != nil {
		return err
	}
	if !inForce {
		if err := k.store(ctx, stored, config, owner, true); err != nil {
			return err
		}
		log.FromContext(ctx).WithName("exposure").Info("The door is in force", "domain", config.Domain, "console", config.ConsoleOrigin)
	}
	k.set(true)
	return nil
}

// load sets what an earlier process has stored, when this one starts.
func (k *Keeper) load(inForce bool) {
	select {
	case <-k.loaded:
	default:
		k.mu.Lock()
		k.inForce = inForce
		k.mu.Unlock()
		record(inForce)
		close(k.loaded)
	}
}

// set sets whether the door is in force, and has the sessions reconciled if that has changed.
func (k *Keeper) set(inForce bool) {
	k.mu.Lock()
	changed := k.inForce != inForce
	k.inForce = inForce
	k.mu.Unlock()
	record(inForce)
	if !changed {
		return
	}
	select {
	case k.changes <- event.GenericEvent{Object: &v1alpha1.SessionAssignment{}}:
	default: // all sessions are to be reconciled anyway
	}
}

// wanted returns the configuration of the door: as the hub has sent it, or as it is stored; nil if there is none.
func (k *Keeper) wanted(stored *corev1.ConfigMap) (*door.Config, error) {
	k.mu.Lock()
	sent := k.sent
	k.mu.Unlock()
	if sent == nil {
		if stored.Data[door.ConfigEntry] == "" {
			return nil, nil
		}
		return door.ParseConfig(stored.Data[door.ConfigEntry])
	}
	config := &door.Config{ConsoleOrigin: sent.GetConsoleOrigin(), Domain: sent.GetDomain(), Keys: map[string][]byte{}}
	if config.ConsoleOrigin == "" {
		return config, nil
	}
	for _, key := range sent.GetKeys() {
		config.Keys[key.GetId()] = key.GetPublicKey()
	}
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("what the hub sent for the door: %w", err)
	}
	return config, nil
}

// ask returns an error until the door answers.
func (k *Keeper) ask(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.options.URL+door.ReadyPath, http.NoBody)
	if err != nil {
		return err
	}
	response, err := k.http.Do(request)
	if err != nil {
		return fmt.Errorf("the door does not answer: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the door at %s is not ready (%s)", k.options.URL, response.Status)
	}
	return nil
}
