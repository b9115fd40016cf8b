package convert

import (
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// seeds are the messages that a fuzzer begins with, besides those of
// testdata/fuzz.
func seeds[T proto.Message](f *testing.F, messages ...T) {
	f.Helper()
	for _, m := range messages {
		bytes, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes)
	}
	f.Add([]byte{})
}

// sizes calls with the path and length of each text and list of a message.
func sizes(m protoreflect.Message, path string, text, list func(path string, size int)) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := path + "." + string(field.Name())
		one := func(v protoreflect.Value, kind protoreflect.Kind) {
			switch kind {
			case protoreflect.StringKind:
				text(name, len(v.String()))
			case protoreflect.BytesKind:
				text(name, len(v.Bytes()))
			case protoreflect.MessageKind:
				sizes(v.Message(), name, text, list)
			}
		}
		switch {
		case field.IsMap():
			list(name, value.Map().Len())
			value.Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
				text(name, len(key.String()))
				one(v, field.MapValue().Kind())
				return true
			})
		case field.IsList():
			list(name, value.List().Len())
			for i := range value.List().Len() {
				one(value.List().Get(i), field.Kind())
			}
		default:
			one(value, field.Kind())
		}
		return true
	})
}

// FuzzReportFromWire checks that a report is the same after it was written and read again, and
// within the limits.
func FuzzReportFromWire(f *testing.F) {
	seeds(f, smallReport(), &fleetv1.AssignmentReport{
		SessionUid: "0b6a3d5e-9d3c-4e8f-9a55-0c4b5e6f7a81", Namespace: "desktops", Name: "s-1", Epoch: 7, SpecHash: "h-1", SessionName: "s",
		Status: &fleetv1.AssignmentStatus{
			State: "Active", Message: "é", MissingSecrets: []string{"x"}, ConfigName: "c",
			Failure:    &fleetv1.Failure{Reason: "ImagePullFailed"},
			Conditions: []*fleetv1.Condition{{Type: "PodReady", Status: "False", Reason: "Pulling"}},
		},
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &fleetv1.AssignmentReport{}
		if proto.Unmarshal(data, w) != nil {
			return
		}
		a, err := ReportFromWire(w)
		if err != nil {
			return
		}
		if a.Namespace == "" || a.Name == "" || a.Spec.Session.UID == "" || a.Spec.Epoch < 1 {
			t.Fatalf("a report that names nothing was read: %+v", a)
		}
		for _, c := range append(a.Status.Conditions, metav1.Condition{Message: a.Status.Message, Reason: a.Status.NodeName}) {
			if c.Message != Printable(c.Message) || c.Reason != Printable(c.Reason) || c.Type != Printable(c.Type) {
				t.Fatalf("it has control characters: %+q", c.Type+c.Reason+c.Message)
			}
		}
		again := ReportToWire(a)
		sizes(again.ProtoReflect(), "", func(path string, size int) {
			if size > MaxMessage {
				t.Fatalf("%s has %d bytes", path, size)
			}
		}, func(path string, size int) {
			if size > MaxList || path == ".status.conditions" && size > MaxConditions {
				t.Fatalf("%s has %d entries", path, size)
			}
		})
		if !utf8.ValidString(a.Status.Message) {
			t.Fatal("a character was cut in two")
		}
		b, err := ReportFromWire(again)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if !equality.Semantic.DeepEqual(a, b) {
			t.Fatalf("it changed:\n%+v\n%+v", a, b)
		}
	})
}

// FuzzAssignmentFromWire checks the same of assignments, and that the hash does not change.
func FuzzAssignmentFromWire(f *testing.F) {
	seeds(f, &fleetv1.Assignment{SessionUid: "u", Namespace: "n", Name: "n", Epoch: 1, Desktop: &fleetv1.Desktop{Image: "i"}},
		&fleetv1.Assignment{
			SessionUid: "u", Namespace: "n", Name: "n", Epoch: 1, SpecHash: "h", User: "é",
			Secrets: []*fleetv1.Secret{{Name: "s", Version: "1", Data: map[string][]byte{"k": {0}}}},
			Desktop: &fleetv1.Desktop{
				Image: "i", Resources: map[string]string{"cpu": "500m", "memory": "2Gi"}, SharedMemory: "1Gi", Args: []string{"-x"},
				NodeSelector: map[string]string{"a": "b"}, Tolerations: []*fleetv1.Toleration{{Key: "k", TolerationSeconds: proto.Int64(3)}},
				Files: []*fleetv1.ConfigFile{{Name: "f", Content: "c"}}, Home: &fleetv1.Home{Mode: "PerUser", Size: "1e3"},
			},
		})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &fleetv1.Assignment{}
		if proto.Unmarshal(data, w) != nil {
			return
		}
		a, err := AssignmentFromWire(w)
		if err != nil {
			return
		}
		again := AssignmentToWire(a)
		sizes(again.ProtoReflect(), "", func(path string, size int) {
			if size > maxArgument {
				t.Fatalf("%s has %d bytes", path, size)
			}
		}, func(path string, size int) {
			if size > maxArguments {
				t.Fatalf("%s has %d entries", path, size)
			}
		})
		b, err := AssignmentFromWire(again)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if x, y := SpecHash(&a.Spec), SpecHash(&b.Spec); x != y {
			t.Fatalf("the hash changed from %s to %s", x, y)
		}
		if !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !equality.Semantic.DeepEqual(a.Payload, b.Payload) {
			t.Fatalf("it changed:\n%+v\n%+v", a, b)
		}
	})
}

// FuzzResourcesFromWire checks that quantities are not negative and canonical.
func FuzzResourcesFromWire(f *testing.F) {
	for _, text := range []string{"1", "500m", "2Gi", "1e3", "-1", "0.0001", "9e999", "1Ei", "1000E", ""} {
		f.Add("cpu", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if len(text) > maxText {
			return // refused before: see checkAssignment
		}
		list, err := ResourcesFromWire(map[string]string{name: text})
		if err != nil {
			return
		}
		for resource, q := range list {
			if q.Sign() < 0 {
				t.Fatalf("%s of %s", q.String(), resource)
			}
		}
		again, err := ResourcesFromWire(ResourcesToWire(list))
		if err != nil || !equality.Semantic.DeepEqual(list, again) {
			t.Fatalf("%v became %v, %v", list, again, err)
		}
	})
}

// FuzzDigestFromWire checks that a digest is written as it was read.
func FuzzDigestFromWire(f *testing.F) {
	var d Digest
	d.Add(3, 17)
	seeds(f, DigestToWire(&d), &fleetv1.InventoryDigest{Buckets: []uint64{1}})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &fleetv1.InventoryDigest{}
		if proto.Unmarshal(data, w) != nil {
			return
		}
		d, err := DigestFromWire(w)
		if err != nil || d.Len() == 0 {
			return // that of nothing has no buckets on the wire
		}
		again, err := DigestFromWire(DigestToWire(d))
		if err != nil || *again != *d {
			t.Fatalf("%v became %v, %v", d, again, err)
		}
	})
}

// FuzzBucketsFromWire checks the same of a hub's requests.
func FuzzBucketsFromWire(f *testing.F) {
	seeds(f, &fleetv1.InventoryRequest{Buckets: make([]byte, 32)}, &fleetv1.InventoryRequest{Buckets: []byte{1}})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &fleetv1.InventoryRequest{}
		if proto.Unmarshal(data, w) != nil {
			return
		}
		set, err := BucketsFromWire(w)
		if err != nil {
			return
		}
		again, err := BucketsFromWire(BucketsToWire(set))
		if err != nil || again != set {
			t.Fatalf("%v became %v, %v", set, again, err)
		}
	})
}

// FuzzTolerationsFromWire checks that tolerations are complete.
func FuzzTolerationsFromWire(f *testing.F) {
	seeds(f, &fleetv1.TemplateRequirements{Tolerations: []*fleetv1.Toleration{{Key: "k", Effect: "NoSchedule", TolerationSeconds: proto.Int64(-1)}}})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &fleetv1.TemplateRequirements{}
		if proto.Unmarshal(data, w) != nil {
			return
		}
		list := TolerationsFromWire(w.GetTolerations())
		again := TolerationsFromWire(TolerationsToWire(list))
		if len(list) != len(w.GetTolerations()) || !equality.Semantic.DeepEqual(list, again) {
			t.Fatalf("%v became %v", list, again)
		}
	})
}

// FuzzNames checks that accepted names and tokens are short and of the allowed characters, and
// that truncated texts are prefixes.
func FuzzNames(f *testing.F) {
	for _, text := range []string{"desktops", "a-b.c", "-a", "A", "é", "a/b", "", "\x80"} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if CheckName("name", text) == nil && (len(text) == 0 || len(text) > MaxName || CheckToken("name", text, MaxName) != nil) {
			t.Fatalf("%q is a name and not a token", text)
		}
		if limit < 0 || !utf8.ValidString(text) {
			return
		}
		cut := Truncated(text, limit)
		if len(cut) > limit || !utf8.ValidString(cut) || text[:len(cut)] != cut || Truncated(cut, limit) != cut || limit-len(cut) >= utf8.UTFMax && len(cut) < len(text) {
			t.Fatalf("%q cut to %d is %q", text, limit, cut)
		}
	})
}
