package session

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

func fullTemplate() *v1alpha1.TemplateSpec {
	t := &v1alpha1.TemplateSpec{
		Image: "registry.example.com/dev:3", ImagePullPolicy: corev1.PullAlways,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		Command:          []string{"/start"}, Args: []string{"--web"},
		Port: 6901, Protocol: v1alpha1.ProtocolHTTPS, Path: "/vnc.html",
		Env: []v1alpha1.EnvVar{{Name: "LANG", Value: "C"}}, RuntimeClassName: "kata", IngressClassName: "public",
		NodeSelector: map[string]string{"pool": "desktops"},
		Tolerations:  []corev1.Toleration{{Key: "desktops", Operator: corev1.TolerationOpExists}},
		Timeout:      v1alpha1.TimeLimit{Default: "8h", Max: "12h"},
	}
	size := resource.MustParse("20Gi")
	t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser, Size: &size, StorageClassName: "fast"}
	return t
}

func TestAssignmentGolden(t *testing.T) {
	s := sessionWith(placedAt(here, 5))
	s.Status.TemplateRevision = "rev1"
	s.Status.Resources = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi")}
	got, err := yaml.Marshal(Assignment(s, fullTemplate(), "eu.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	const path = "testdata/assignment.yaml"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("differs from %s (-want +got), write it anew with -update:\n%s", path, diff)
	}
}

func TestAssignmentHome(t *testing.T) {
	name := v1alpha1.AssignmentName("mine", "uid-session")
	for mode, want := range map[v1alpha1.HomeMode]v1alpha1.AssignedHome{
		"":                      {Mode: v1alpha1.HomeNone},
		v1alpha1.HomeNone:       {Mode: v1alpha1.HomeNone},
		v1alpha1.HomePerSession: {Mode: v1alpha1.HomePerSession, ClaimName: name, MountPath: "/home/user"},
		v1alpha1.HomePerUser:    {Mode: v1alpha1.HomePerUser, ClaimName: v1alpha1.HomeName("desktops", "ann", "browser"), MountPath: "/home/user"},
	} {
		template := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: mode}}
		if diff := cmp.Diff(want, Assignment(sessionWith(), template, "x").Spec.Desktop.Home); diff != "" {
			t.Errorf("mode %q (-want +got):\n%s", mode, diff)
		}
	}
}

func TestFailoverMode(t *testing.T) {
	asked := sessionWith()
	asked.Spec.Failover.Mode = v1alpha1.FailoverFence
	for _, c := range []struct {
		session *v1alpha1.VDISession
		home    v1alpha1.HomeMode
		want    v1alpha1.FailoverMode
	}{
		{sessionWith(), v1alpha1.HomeNone, v1alpha1.FailoverRestart},
		{sessionWith(), v1alpha1.HomePerSession, v1alpha1.FailoverHold},
		{sessionWith(), v1alpha1.HomePerUser, v1alpha1.FailoverHold},
		{asked, v1alpha1.HomePerUser, v1alpha1.FailoverFence},
	} {
		template := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: c.home}}
		if got := failoverMode(c.session, template); got != c.want {
			t.Errorf("home %q: got %s, want %s", c.home, got, c.want)
		}
	}
}

func TestRunState(t *testing.T) {
	suspended := sessionWith()
	suspended.Spec.OperatingMode = v1alpha1.ModeSuspended
	expired := sessionWith(conditionOf(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTimeExpired))
	for name, c := range map[string]struct {
		session *v1alpha1.VDISession
		want    v1alpha1.OperatingMode
	}{
		"as asked":                            {sessionWith(), v1alpha1.ModeRunning},
		"suspended by its user":               {suspended, v1alpha1.ModeSuspended},
		"its time is over":                    {expired, v1alpha1.ModeSuspended},
		"its desktop is not ready":            {sessionWith(conditionOf(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStarting)), v1alpha1.ModeRunning},
		"its member is not heard of any more": {sessionWith(conditionOf(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonMemberUnreachable)), v1alpha1.ModeRunning},
	} {
		if got := runState(c.session); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestExpiry(t *testing.T) {
	start := metav1.Unix(1_000_000, 0)
	for _, c := range []struct {
		name                 string
		asked, default_, max v1alpha1.Duration
		started              bool
		want                 time.Duration // after the start; 0: never
	}{
		{name: "no limit", started: true},
		{name: "the template's", default_: "1h", started: true, want: time.Hour},
		{name: "the session's", asked: "2h", default_: "1h", started: true, want: 2 * time.Hour},
		{name: "never more than the maximum", asked: "9h", max: "3h", started: true, want: 3 * time.Hour},
		{name: "the maximum where nobody asks", max: "3h", started: true, want: 3 * time.Hour},
		{name: "not before it has started", asked: "2h"},
		{name: "whole seconds, and never short", asked: "1500ms", started: true, want: 2 * time.Second},
		{name: "what can't be read is no limit", asked: "soon", started: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessionWith()
			s.Spec.Timeout = c.asked
			if c.started {
				s.Status.StartTime = &start
			}
			template := &v1alpha1.TemplateSpec{Timeout: v1alpha1.TimeLimit{Default: c.default_, Max: c.max}}
			end, limited := expiry(s, template)
			if limited != (c.want != 0) || (limited && end.Sub(start.Time) != c.want) {
				t.Errorf("got %s after the start, %t; want %s", end.Sub(start.Time), limited, c.want)
			}
		})
	}
}

func conditionOf(name string, status metav1.ConditionStatus, reason string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) {
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
			Type: name, Status: status, Reason: reason, Message: "message of " + reason,
			LastTransitionTime: metav1.Unix(1_700_000_000, 0),
		})
	}
}
