package member

import (
	"encoding/json"
	"runtime"
	"testing"
	"unique"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestCachedMembersShareWhatTheyHaveInCommon(t *testing.T) {
	t.Parallel()
	want := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu", Finalizers: []string{v1alpha1.MemberFinalizer}}}
	want.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, Message: "the agent is connected"}}
	for _, name := range []string{"browser", "desktop", "kiosk"} {
		want.Status.Templates = append(want.Status.Templates, v1alpha1.TemplateAvailability{
			Name: name, Revision: "revision-of-" + name, Reason: v1alpha1.UnavailableStorageClass, Message: "no storage class", Slots: 3,
		})
	}
	// A garbage collection between the two would have each of them keep strings of its own.
	for i := range want.Status.Templates {
		t := &want.Status.Templates[i]
		for _, text := range []string{t.Name, t.Revision, t.Reason, t.Message} {
			defer runtime.KeepAlive(unique.Make(text))
		}
	}
	one, other := cachedCopy(t, want), cachedCopy(t, want)
	if diff := cmp.Diff(want, one); diff != "" {
		t.Errorf("the cache has another object (-want +got):\n%s", diff)
	}
	if spare := cap(one.Status.Templates) - len(one.Status.Templates) + cap(one.Status.Conditions) - len(one.Status.Conditions); spare > 0 {
		t.Errorf("its lists have capacity for %d more", spare)
	}
	for i := range want.Status.Templates {
		a, b := one.Status.Templates[i], other.Status.Templates[i]
		for _, texts := range [][2]string{{a.Name, b.Name}, {a.Revision, b.Revision}, {a.Reason, b.Reason}, {a.Message, b.Message}} {
			if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
				t.Errorf("two members have a copy each of %q", texts[0])
			}
		}
	}
}

// cachedCopy returns a member as the cache keeps it.
func cachedCopy(t *testing.T, mc *v1alpha1.MemberCluster) *v1alpha1.MemberCluster {
	t.Helper()
	text, err := json.Marshal(mc)
	if err != nil {
		t.Fatal(err)
	}
	decoded := &v1alpha1.MemberCluster{}
	if err := json.Unmarshal(text, decoded); err != nil {
		t.Fatal(err)
	}
	cached, err := Cached().Transform(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return cached.(*v1alpha1.MemberCluster)
}
