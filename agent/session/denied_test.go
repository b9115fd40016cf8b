package session

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// denial is an error by which an API server denies a write, with its remedy.
type denial struct {
	err           error
	cause, remedy string
}

func denials() map[string]denial {
	forbidden := func(cause, remedy string) denial {
		return denial{apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, "x", errors.New(cause)), cause, remedy}
	}
	return map[string]denial{
		"the authorizer": forbidden(`User "agent" cannot write resource "objects" in API group ""`, "grant this permission"),
		"a quota":        forbidden("exceeded quota: team", "raise the quota"),
		"a webhook":      forbidden(`admission webhook "x" denied the request: not today`, "exempt vdi-fleet from it"),
		"validation":     {apierrors.NewInvalid(schema.GroupKind{Kind: "Object"}, "x", nil), `Object "x" is invalid`, "change the session"},
	}
}

// deny has the API server deny one kind of write.
func (s *stage) deny(denied string, err error) {
	s.refuse = func(write string) error {
		if write == denied {
			return err
		}
		return nil
	}
}

// Every write that a desktop needs shows on its assignment when the API server denies it, with
// the remedy, within 10 s.
func TestADeniedWriteIsReported(t *testing.T) {
	for by, d := range denials() {
		for _, write := range []string{
			"create PersistentVolumeClaim", "create ConfigMap", "create NetworkPolicy", "create PodDisruptionBudget", "create Pod",
			"create Service", "create Ingress", "patch Service",
		} {
			repair := strings.HasPrefix(write, "patch")
			if repair && apierrors.IsInvalid(d.err) {
				continue // the child is recreated
			}
			t.Run(write+" by "+by, func(t *testing.T) {
				s := newStage(t, desktop(perSession, withFile))
				if repair {
					s.pass()
					service := &corev1.Service{}
					s.get(service)
					service.Spec.Ports = nil
					if err := s.client.Update(t.Context(), service); err != nil {
						t.Fatal(err)
					}
				}
				s.deny(write, d.err)
				for range 10 {
					s.after(time.Second)
				}
				if s.count(write) == 0 {
					t.Fatalf("it is not tried: %v", s.writes)
				}
				conditions := s.assignment().Status.Conditions
				if !slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
					return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, d.cause) && strings.Contains(c.Message, d.remedy)
				}) {
					t.Errorf("no condition has cause %q and remedy %q: %+v", d.cause, d.remedy, conditions)
				}
			})
		}
	}
}

func withFile(a *api.SessionAssignment) {
	a.Spec.Desktop.Files = []api.ConfigFile{{Name: "motd", Content: "hello"}}
}

// What the API server does not allow the agent to remove shows on the session, with the remedy,
// and is tried again.
func TestADeniedRemovalIsReportedAndRetried(t *testing.T) {
	suspended := func(s *stage) { s.edit(suspend) }
	deleted := func(s *stage) { s.delete(s.assignment()) }
	for denied, end := range map[string]func(*stage){
		"delete Pod":              suspended,
		"delete Service":          deleted,
		"delete Ingress":          deleted,
		"delete ConfigMap":        deleted,
		"patch SessionAssignment": deleted,
	} {
		for _, by := range []string{"the authorizer", "a webhook"} {
			t.Run(denied+" by "+by, func(t *testing.T) {
				d := denials()[by]
				s := newStage(t, desktop(perSession, withFile), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
				s.pass()
				s.bind()
				s.setPod(makeReady)
				s.pass()
				s.deny(denied, d.err)
				end(s)
				wait := s.pass()
				for range 10 {
					wait = s.after(time.Second)
				}
				message := s.assignment().Status.Message
				if !strings.Contains(message, d.cause) || !strings.Contains(message, d.remedy) {
					t.Errorf("the message is %q, without cause %q or remedy %q: %v", message, d.cause, d.remedy, s.writes)
				}
				if wait == 0 {
					t.Error("it is not tried again")
				}
				s.refuse = nil
				s.after(time.Hour)
				s.after(time.Minute)
				if !s.gone(&corev1.Pod{}) {
					t.Error("the Pod is left though its removal is not denied any more")
				}
			})
		}
	}
}
