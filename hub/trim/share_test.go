package trim

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCachedObjectsShareEqualMetadata(t *testing.T) {
	of := func(name, value string) *corev1.Secret {
		s := &corev1.Secret{}
		s.Name, s.Labels, s.Annotations = name, map[string]string{"kind": "access", "team": "eu"}, map[string]string{"run": value}
		Metadata(s)
		return s
	}
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	one, other, third := of("one", "1/1"), of("other", "1/1"), of("third", "2/1")
	if !same(one.Labels, other.Labels) || !same(one.Annotations, other.Annotations) {
		t.Error("equal maps are kept twice")
	}
	if same(one.Annotations, third.Annotations) || third.Annotations["run"] != "2/1" || third.Labels["team"] != "eu" {
		t.Errorf("the maps of %s are those of another: %v, %v", third.Name, third.Labels, third.Annotations)
	}
}

func TestCachedObjectsShareEqualResources(t *testing.T) {
	of := func(cpu string) corev1.ResourceList {
		return Resources(corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("2Gi")})
	}
	if one, other := of("1"), of("1"); reflect.ValueOf(one).Pointer() != reflect.ValueOf(other).Pointer() {
		t.Error("equal lists are kept twice")
	}
	two := of("2")
	if got := two.Cpu().String(); got != "2" {
		t.Errorf("%s cpu, want 2", got)
	}
}

func TestCachedObjectsShareEqualLists(t *testing.T) {
	same := func(a, b []string) bool { return unsafe.SliceData(a) == unsafe.SliceData(b) }
	one, other := List([]string{"get", "watch"}), List(append(make([]string, 0, 8), "get", "watch"))
	if !same(one, other) {
		t.Error("equal lists are kept twice")
	}
	if cap(one) > len(one) {
		t.Error("what is appended to a shared list would be in it")
	}
	for _, third := range [][]string{{"get"}, {"get", "list"}, {"getwatch"}, nil} {
		if got := List(third); !slices.Equal(got, third) {
			t.Errorf("%q became %q", third, got)
		}
	}
	large := func() []string { return List([]string{strings.Repeat("x", maxSharedSize+1)}) }
	if same(large(), large()) {
		t.Error("a large list is remembered")
	}
}

// Users choose labels: a map is remembered only while it is small, and only so many are.
func TestLargeMapsAreNotShared(t *testing.T) {
	large := func() map[string]string {
		m := map[string]string{}
		for i := range 30 {
			m[fmt.Sprintf("example.com/label-%02d", i)] = "some value of a user"
		}
		s := &corev1.Secret{}
		s.Labels = m
		Metadata(s)
		return s.Labels
	}
	if one, other := large(), large(); reflect.ValueOf(one).Pointer() == reflect.ValueOf(other).Pointer() {
		t.Error("a large map is remembered")
	}
}

func TestEqualValuesAreInOneBucket(t *testing.T) {
	seen := map[string]int{}
	for i := range 4 * buckets {
		name := fmt.Sprintf("session-%d-0123456789", i)
		bucket := Bucket(name)
		if again := Bucket(strings.Clone(name)); again != bucket {
			t.Fatalf("%s is in buckets %s and %s", name, bucket, again)
		}
		seen[bucket]++
	}
	for bucket, n := range seen {
		if n > 30 {
			t.Errorf("%d of %d names are in bucket %s", n, 4*buckets, bucket)
		}
	}
}

// What an object alone has keeps its value, in less objects of the heap.
func TestTextsArePacked(t *testing.T) {
	one, empty, two := strings.Repeat("1", 3), "", strings.Repeat("2", 4)
	Pack(&one, &empty, &two)
	if one != "111" || empty != "" || two != "2222" {
		t.Errorf("the texts became %q, %q and %q", one, empty, two)
	}
	if got, want := unsafe.StringData(two), unsafe.Add(unsafe.Pointer(unsafe.StringData(one)), 3); unsafe.Pointer(got) != want {
		t.Error("the second text is an object of its own")
	}
	Pack()

	secret := &corev1.Secret{}
	secret.Name, secret.UID, secret.ResourceVersion, secret.Namespace = "s", "uid", "17", "team"
	secret.OwnerReferences = []metav1.OwnerReference{{Name: "owner", UID: "of-owner", Kind: "VDISession"}}
	more := "more"
	Metadata(secret, &more)
	owner := secret.OwnerReferences[0]
	if got := []string{secret.Name, string(secret.UID), secret.ResourceVersion, secret.Namespace, owner.Name, string(owner.UID), owner.Kind, more}; !slices.Equal(got,
		[]string{"s", "uid", "17", "team", "owner", "of-owner", "VDISession", "more"}) {
		t.Errorf("the metadata became %q", got)
	}
}

func TestDataIsPacked(t *testing.T) {
	data := Data(map[string][]byte{"username": []byte("kasm"), "password": []byte("secret"), "empty": {}})
	if len(data) != 3 || string(data["username"]) != "kasm" || string(data["password"]) != "secret" || len(data["empty"]) != 0 {
		t.Errorf("the data became %q", data)
	}
	for name, value := range data {
		if cap(value) > len(value) {
			t.Errorf("what is appended to %s would be in another value", name)
		}
	}
	if got := Data(nil); len(got) != 0 {
		t.Errorf("no data became %q", got)
	}
}

// Most equal texts are of objects between which garbage was collected.
func TestEqualTextsAreSharedFromOneCollectionToTheNext(t *testing.T) {
	of := func(text string) string {
		text = strings.Clone(text)
		Strings(&text)
		return text
	}
	one := of("member-0001")
	runtime.GC()
	runtime.GC()
	other := of("member-0001")
	if unsafe.StringData(one) != unsafe.StringData(other) || other != "member-0001" {
		t.Errorf("%q is kept twice", other)
	}
	if of("member-0002") != "member-0002" || of("") != "" {
		t.Error("a text became another")
	}
	large := strings.Repeat("x", maxSharedSize+1)
	if a, b := of(large), of(large); unsafe.StringData(a) == unsafe.StringData(b) {
		t.Error("a large text is remembered")
	}
}
