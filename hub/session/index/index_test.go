package index

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// indexer passes the indexes to a fake client.
func TestASessionIsFoundByItsAssignmentWhateverItsName(t *testing.T) {
	t.Parallel()
	names := []string{"alice", "a", "alice.laptop", "1st", strings.Repeat("long-", 30) + "name", strings.Repeat("x", 52), strings.Repeat("x", 53)}
	var all []*v1alpha1.VDISession
	for i, name := range names {
		s := &v1alpha1.VDISession{}
		s.Namespace, s.Name, s.UID = "desktops", name, types.UID(strings.Repeat("u", i+1))
		all = append(all, s)
	}
	sessions := Of(all...)
	for i, name := range names {
		key := types.NamespacedName{Namespace: "desktops", Name: v1alpha1.AssignmentName(name, types.UID(strings.Repeat("u", i+1)))}
		if s := sessions.ByAssignment(key); s == nil || s.Name != name {
			t.Errorf("the session of %s is %v, want %s", key.Name, s, name)
		}
		key.Name = v1alpha1.AssignmentName(name, "of an earlier session of this name")
		if s := sessions.ByAssignment(key); s != nil {
			t.Errorf("the session of %s is %v, although that is a later one", key.Name, s)
		}
	}
}
