package convert

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var (
	label = rapid.StringMatching(`[a-z][a-z0-9-]{0,8}`)
	text  = rapid.StringN(0, 12, 24)
	// Messages of agents are read as far as they are printable.
	sentence = rapid.Map(text, Printable)
	// Several texts of one quantity, and some that JSON rewrites.
	quantity = rapid.SampledFrom([]string{"1", "1000m", "0.5", "500m", "2Gi", "2048Mi", "1e3", "1k", "1500Mi", "0"})
	duration = rapid.SampledFrom([]v1alpha1.Duration{"", "90m", "1h30m", "5400s", "8h", "250ms", "0.5s"})
)

func anyResources(t *rapid.T) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range rapid.MapOfN(label, quantity, 0, 3).Draw(t, "resources") {
		out[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	return out
}

// TestAQuantityBeyondInt64IsTheLargest: apimachinery writes 1000E as 1.
func TestAQuantityBeyondInt64IsTheLargest(t *testing.T) {
	for _, text := range []string{"1000E", "100000000E", "1e26", "10E", "8Ei"} {
		cpu := corev1.ResourceList{"cpu": resource.MustParse(text)}
		got, err := ResourcesFromWire(ResourcesToWire(cpu))
		if q := got["cpu"]; err != nil || q.CmpInt64(math.MaxInt64) != 0 {
			t.Errorf("%s became %s, %v", text, q.String(), err)
		}
	}
}

func anyHome(t *rapid.T) v1alpha1.AssignedHome {
	h := v1alpha1.AssignedHome{
		Mode:      rapid.SampledFrom([]v1alpha1.HomeMode{"", "None", "PerUser"}).Draw(t, "mode"),
		ClaimName: rapid.OneOf(rapid.Just(""), label).Draw(t, "claim"), MountPath: text.Draw(t, "mountPath"),
	}
	if rapid.Bool().Draw(t, "sized") {
		h.Size = ptr.To(resource.MustParse(quantity.Draw(t, "size")))
		h.AccessMode, h.Retention, h.RetentionTime = corev1.ReadWriteMany, v1alpha1.RetentionRetain, "24h0m0s"
	}
	return h
}

func anyAssignment(t *rapid.T) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{Namespace: label.Draw(t, "namespace"), Name: label.Draw(t, "name")},
		Spec: v1alpha1.SessionAssignmentSpec{
			Session: v1alpha1.SessionReference{
				Namespace: label.Draw(t, "ns"), Name: label.Draw(t, "n"), UID: types.UID(label.Draw(t, "uid")),
			},
			Epoch: rapid.Int64Min(1).Draw(t, "epoch"), Proof: rapid.StringMatching(`[A-Za-z0-9_-]{0,43}`).Draw(t, "proof"), User: text.Draw(t, "user"), Template: label.Draw(t, "template"),
			RunState: v1alpha1.ModeRunning, Timeout: duration.Draw(t, "timeout"), TimeUsed: duration.Draw(t, "used"),
			Host: label.Draw(t, "host"),
			Desktop: v1alpha1.Desktop{
				Image: text.Draw(t, "image"), Port: rapid.Int32().Draw(t, "port"),
				Command:   rapid.SliceOfN(text, 0, 3).Draw(t, "command"),
				Resources: anyResources(t), Home: anyHome(t),
				NodeSelector: rapid.MapOfN(label, label, 0, 3).Draw(t, "selector"),
				Access:       v1alpha1.AssignedAccess{SecretName: text.Draw(t, "access"), PasswordEnv: text.Draw(t, "passwordEnv")},
				Activity:     v1alpha1.Activity{Path: text.Draw(t, "activity")}, StartTimeout: duration.Draw(t, "startTimeout"),
				TLSSecretName: text.Draw(t, "tls"), ConfigMountPath: text.Draw(t, "configPath"), PriorityClassName: text.Draw(t, "priority"),
				NetworkPolicy: v1alpha1.TemplateNetworkPolicy{Mode: v1alpha1.NetworkIsolated, EgressCIDRs: rapid.SliceOfN(text, 0, 2).Draw(t, "cidrs")},
			},
			Attempt: rapid.Int64().Draw(t, "attempt"), IdleTimeout: duration.Draw(t, "idle"),
		},
	}
	if rapid.Bool().Draw(t, "shared") {
		a.Spec.Desktop.SharedMemory = ptr.To(resource.MustParse(quantity.Draw(t, "sharedMemory")))
	}
	for _, name := range rapid.SliceOfN(label, 0, 3).Draw(t, "secrets") {
		a.Spec.Secrets = append(a.Spec.Secrets, v1alpha1.SecretReference{Name: name, Version: "v" + name})
		a.Spec.Desktop.Files = append(a.Spec.Desktop.Files, v1alpha1.ConfigFile{Name: name, Content: text.Draw(t, "content")})
		a.Spec.Desktop.Secrets = append(a.Spec.Desktop.Secrets, v1alpha1.SecretUse{
			Name: name, MountPath: text.Draw(t, "mount"), Env: []v1alpha1.SecretEnvVar{{Name: text.Draw(t, "var"), Key: name}},
		})
		a.Payload = append(a.Payload, v1alpha1.SecretPayload{
			Name: name, Version: "v" + name, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte(text.Draw(t, "data"))},
		})
	}
	for _, name := range rapid.SliceOfN(label, 0, 3).Draw(t, "env") {
		a.Spec.Desktop.Env = append(a.Spec.Desktop.Env, v1alpha1.EnvVar{Name: name, Value: text.Draw(t, "value")})
		a.Spec.Desktop.Tolerations = append(a.Spec.Desktop.Tolerations, corev1.Toleration{
			Key: name, Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To(rapid.Int64().Draw(t, "seconds")),
		})
		a.Spec.Desktop.ImagePullSecrets = append(a.Spec.Desktop.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return a
}

// throughWire marshals, so that what protobuf can't carry is seen.
func throughWire[T proto.Message](t *rapid.T, in, out T) T {
	b, err := proto.Marshal(in)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return out
}

func throughJSON(t *rapid.T, a *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment {
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	out := &v1alpha1.SessionAssignment{}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAssignmentKeepsItsMeaningAcrossTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAssignment(t)
		hash := SpecHash(&a.Spec)
		got, err := AssignmentFromWire(throughWire(t, AssignmentToWire(a), &fleetv1.Assignment{}))
		if err != nil {
			t.Fatal(err)
		}
		if got.Annotations[v1alpha1.AnnotationSpecHash] != hash {
			t.Fatalf("annotation %q, want %q", got.Annotations, hash)
		}
		for name, version := range map[string]*v1alpha1.SessionAssignment{
			"wire": got, "json": throughJSON(t, got), "json of the sender": throughJSON(t, a),
		} {
			if h := SpecHash(&version.Spec); h != hash {
				t.Fatalf("%s: hash %s, want %s\n%s", name, h, hash, cmp.Diff(a.Spec, version.Spec))
			}
		}
		// The texts of durations are made canonical; all else is equal.
		a.Spec.Timeout, a.Spec.TimeUsed, a.Spec.IdleTimeout = got.Spec.Timeout, got.Spec.TimeUsed, got.Spec.IdleTimeout
		a.Spec.Desktop.StartTimeout = got.Spec.Desktop.StartTimeout
		if diff := cmp.Diff(a.Payload, got.Payload); len(a.Payload) == len(uniqueNames(a.Payload)) && diff != "" {
			t.Fatalf("payload changed (-sent +read):\n%s", diff)
		}
		if !equality.Semantic.DeepEqual(throughJSON(t, a).Spec, throughJSON(t, got).Spec) {
			t.Fatalf("spec changed:\n%s", cmp.Diff(a.Spec, got.Spec))
		}
	})
}

func uniqueNames(payload []v1alpha1.SecretPayload) map[string]bool {
	names := map[string]bool{}
	for _, p := range payload {
		names[p.Name] = true
	}
	return names
}

func TestNoDataOfASecretIsInTheHash(t *testing.T) {
	a := &v1alpha1.SessionAssignment{}
	a.Spec.Secrets = []v1alpha1.SecretReference{{Name: "access", Version: "1"}}
	a.Payload = []v1alpha1.SecretPayload{{Name: "access", Version: "1", Data: map[string][]byte{"password": []byte("secret")}}}
	if got, want := AssignmentToWire(a).GetSpecHash(), SpecHash(&a.Spec); got != want {
		t.Errorf("hash %s with the data, %s without", got, want)
	}
	other := a.Spec.DeepCopy()
	other.Secrets[0].Version = "2"
	if SpecHash(other) == SpecHash(&a.Spec) {
		t.Error("another version has the same hash")
	}
}

func TestSpecHashDistinguishesSpecs(t *testing.T) {
	base := v1alpha1.SessionAssignmentSpec{Epoch: 1, User: "ada", Timeout: "1h"}
	base.Desktop.Resources = corev1.ResourceList{"cpu": resource.MustParse("1")}
	changes := map[string]func(*v1alpha1.SessionAssignmentSpec){
		"epoch":     func(s *v1alpha1.SessionAssignmentSpec) { s.Epoch = 2 },
		"timeout":   func(s *v1alpha1.SessionAssignmentSpec) { s.Timeout = "2h" },
		"run state": func(s *v1alpha1.SessionAssignmentSpec) { s.RunState = v1alpha1.ModeSuspended },
		"resources": func(s *v1alpha1.SessionAssignmentSpec) {
			s.Desktop.Resources = corev1.ResourceList{"cpu": resource.MustParse("1001m")}
		},
	}
	for name, change := range changes {
		other := *base.DeepCopy()
		change(&other)
		if SpecHash(&base) == SpecHash(&other) {
			t.Errorf("%s: the hash did not change", name)
		}
	}
	same := *base.DeepCopy()
	same.Timeout = "60m"
	same.Proof = "proof"
	same.Desktop.Resources = corev1.ResourceList{"cpu": resource.MustParse("1000m")}
	if SpecHash(&base) != SpecHash(&same) {
		t.Error("another text of the same values, or a proof, changed the hash")
	}
}

func TestReportKeepsItsMeaningAcrossTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAssignment(t)
		a.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: label.Draw(t, "hash")}
		a.Status = v1alpha1.SessionAssignmentStatus{
			ObservedGeneration: rapid.Int64().Draw(t, "generation"), State: v1alpha1.AssignmentActive,
			Reason: sentence.Draw(t, "reason"), Message: sentence.Draw(t, "message"), NodeName: sentence.Draw(t, "node"),
		}
		if rapid.Bool().Draw(t, "failed") {
			a.Status.Failure = &v1alpha1.Failure{Attempt: rapid.Int64().Draw(t, "attempt"), Reason: label.Draw(t, "why"), Message: sentence.Draw(t, "how")}
			a.Status.Config = &v1alpha1.AssignedConfig{Name: label.Draw(t, "config"), Hash: sentence.Draw(t, "configHash")}
			a.Status.TimeUsed, a.Status.MissingSecrets = "1h0m0s", []string{"access"}
		}
		second := rapid.Int64Range(0, 1<<33)
		if rapid.Bool().Draw(t, "started") {
			a.Status.StartTime = ptr.To(metav1.Unix(second.Draw(t, "start"), 0))
			a.Status.RunningSince = ptr.To(metav1.Unix(second.Draw(t, "since"), 0))
		}
		for _, kind := range rapid.SliceOfN(label, 0, 3).Draw(t, "types") {
			c := metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: sentence.Draw(t, "r"), Message: sentence.Draw(t, "m")}
			if rapid.Bool().Draw(t, "transition") {
				c.LastTransitionTime = metav1.Unix(second.Draw(t, "at"), 0)
			}
			a.Status.Conditions = append(a.Status.Conditions, c)
		}
		got, err := ReportFromWire(throughWire(t, ReportToWire(a), &fleetv1.AssignmentReport{}))
		if err != nil {
			t.Fatal(err)
		}
		a.Payload = nil
		a.Spec = v1alpha1.SessionAssignmentSpec{Session: a.Spec.Session, Epoch: a.Spec.Epoch, Proof: a.Spec.Proof}
		if diff := cmp.Diff(a, got); diff != "" {
			t.Fatalf("report changed (-sent +read):\n%s", diff)
		}
	})
}

func TestWhatCannotBeReadNamesItsField(t *testing.T) {
	good := func() *fleetv1.Assignment {
		return &fleetv1.Assignment{
			SessionUid: "u", Namespace: "ns", Name: "n", Epoch: 1,
			Desktop: &fleetv1.Desktop{Image: "i", Home: &fleetv1.Home{}},
		}
	}
	if _, err := AssignmentFromWire(good()); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for field, spoil := range map[string]func(*fleetv1.Assignment){
		"session_uid":            func(a *fleetv1.Assignment) { a.SessionUid = "" },
		"namespace":              func(a *fleetv1.Assignment) { a.Namespace = "" },
		"name":                   func(a *fleetv1.Assignment) { a.Name = "" },
		"epoch":                  func(a *fleetv1.Assignment) { a.Epoch = 0 },
		"timeout":                func(a *fleetv1.Assignment) { a.Timeout = durationpb.New(-time.Second) },
		"proof":                  func(a *fleetv1.Assignment) { a.Proof = strings.Repeat("p", MaxProof+1) },
		"time_used":              func(a *fleetv1.Assignment) { a.TimeUsed = &durationpb.Duration{Nanos: -1, Seconds: 1} },
		"desktop.image":          func(a *fleetv1.Assignment) { a.Desktop = nil },
		"desktop.resources[cpu]": func(a *fleetv1.Assignment) { a.Desktop.Resources = map[string]string{"cpu": "many"} },
		"desktop.resources[gpu]": func(a *fleetv1.Assignment) { a.Desktop.Resources = map[string]string{"gpu": "-1"} },
		"desktop.resources[mem]": func(a *fleetv1.Assignment) { a.Desktop.Resources = map[string]string{"mem": "10E"} },
		"desktop.home.size":      func(a *fleetv1.Assignment) { a.Desktop.Home.Size = "10 GB" },
	} {
		a := good()
		spoil(a)
		if _, err := AssignmentFromWire(a); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: error %v", field, err)
		}
	}
	badStatus := &fleetv1.AssignmentStatus{Conditions: []*fleetv1.Condition{
		{Type: "PodReady", Status: "True", LastTransitionTime: &timestamppb.Timestamp{Nanos: -5}},
	}}
	for field, r := range map[string]*fleetv1.AssignmentReport{
		"session_uid": {Namespace: "ns", Name: "n", Epoch: 1},
		"epoch":       {SessionUid: "u", Namespace: "ns", Name: "n", Epoch: -1},
		"proof":       {SessionUid: "u", Namespace: "ns", Name: "n", Epoch: 1, Proof: "not a token"},
		"status.conditions[0].last_transition_time": {SessionUid: "u", Namespace: "ns", Name: "n", Epoch: 1, Status: badStatus},
		"status.conditions[0].status": {SessionUid: "u", Namespace: "ns", Name: "n", Epoch: 1,
			Status: &fleetv1.AssignmentStatus{Conditions: []*fleetv1.Condition{{Type: "PodReady", Status: "Yes"}}}},
	} {
		if _, err := ReportFromWire(r); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: error %v", field, err)
		}
	}
}
