package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/console/keys"
	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const (
	namespace = "desktops"
	template  = "browser"
	region    = "eu-west"
	// writers write sessions and their changes at once.
	writers = 48
)

// bench is a console with sessions.
type bench struct {
	options options
	fleet   *harness.Fleet
	hub     client.Client
	// logins makes the cookies of users, with the console's keys.
	logins   login.Cookies
	sessions []*v1alpha1.VDISession
	missed   []error
}

func start(ctx context.Context, o options) (*bench, error) {
	fleet, err := harness.Start(ctx, harness.Options{
		Members: 1, NodesPerMember: 1, GPUNodes: -1, HubReplicas: 1, Namespaces: []string{namespace}, Keep: o.keep,
		Console: harness.ConsoleOptions{Replicas: 1}, Progress: func(step string) { fmt.Println("  " + step) },
	})
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, fleet: fleet}
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return b, err
	}
	cfg := *fleet.Hub.ControlPlane.Config
	cfg.QPS, cfg.Burst = 5000, 10_000
	if b.hub, err = client.New(&cfg, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return b, fmt.Errorf("making a client: %w", err)
	}
	// The sessions are to be as they are written here.
	if err := fleet.Hub.Replicas[0].Pause(); err != nil {
		return b, err
	}
	return b, b.readKeys(ctx)
}

// readKeys reads the console's keys, so that hundreds of users need not log in by a password.
func (b *bench) readKeys(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := b.hub.Get(ctx, client.ObjectKey{Namespace: harness.SystemNamespace, Name: keys.SecretName}, secret); err != nil {
		return fmt.Errorf("reading the console's keys: %w", err)
	}
	var ring keys.Ring
	for _, stored := range secret.Data {
		if err := json.Unmarshal(stored, &ring); err == nil && len(ring.Login) > 0 {
			b.logins = login.Cookies{Keys: loginKeys(ring), Now: time.Now}
			return nil
		}
	}
	return errors.New("the Secret of the console's keys has none for logins")
}

// loginKeys are the keys of a ring (login.Keys).
type loginKeys keys.Ring

func (k loginKeys) Current() (id string, key []byte, err error) {
	return k.Login[0].ID, k.Login[0].Key, nil
}

func (k loginKeys) Key(id string) ([]byte, bool) { return k.Login[0].Key, id == k.Login[0].ID }

// user returns the name of a user of the sessions.
func user(n int) string { return fmt.Sprintf("user-%03d@example.com", n) }

// create creates the template, the sessions and their statuses.
func (b *bench) create(ctx context.Context) error {
	fmt.Printf("\ncreating %d sessions of %d users\n", b.options.sessions, b.options.users)
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: template}}
	t.Spec.Title, t.Spec.Image, t.Spec.Port = "Secure browser", "registry.example.com/desktop:1", 6901
	t.Spec.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	if err := b.hub.Create(ctx, t); err != nil {
		return fmt.Errorf("creating the template: %w", err)
	}
	began := time.Now()
	b.sessions = make([]*v1alpha1.VDISession, b.options.sessions)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range b.sessions {
		group.Go(func() error {
			s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("browser-%05d", i)}}
			s.Spec.User, s.Spec.Template = user(i%b.options.users), template
			if err := b.hub.Create(ctx, s); err != nil {
				return fmt.Errorf("creating %s: %w", s.Name, err)
			}
			setRunning(s, i)
			b.sessions[i] = s
			return b.hub.Status().Update(ctx, s)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("  done after %s\n", time.Since(began).Round(time.Second))
	return nil
}

// setRunning gives a session the status of one that runs, until the time that marks its version.
func setRunning(s *v1alpha1.VDISession, version int) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	s.Status.Phase, s.Status.Epoch, s.Status.StartTime = v1alpha1.PhaseRunning, 1, &now
	s.Status.Placement = &v1alpha1.Placement{ClusterName: region, ClusterUID: "uid", Region: region, Epoch: 1, Run: 1, PlacementTime: now}
	s.Status.Endpoint = &v1alpha1.SessionEndpoint{URL: "https://" + s.Name + ".eu.desktops.example.com/"}
	s.Status.Conditions = nil
	for _, kind := range []string{
		v1alpha1.ConditionAccepted, v1alpha1.ConditionScheduled, v1alpha1.ConditionAssigned, v1alpha1.ConditionHomeReady,
		v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady, v1alpha1.ConditionReady,
	} {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: now})
	}
	s.Status.ExpirationTime = mark(version)
}

// epoch is the beginning of the times that mark versions, far from now.
var epoch = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)

// mark returns the time that marks a version of a session: pages show it.
func mark(version int) *metav1.Time {
	at := metav1.NewTime(epoch.Add(time.Duration(version) * time.Second))
	return &at
}

// bound records a bound that is missed.
func (b *bench) bound(what string, got, limit float64, unit string) {
	fmt.Printf("  %s: %.3g %s (bound %.3g)\n", what, got, unit, limit)
	if got > limit {
		b.missed = append(b.missed, fmt.Errorf("%s: %.3g %s, more than %.3g", what, got, unit, limit))
	}
}
