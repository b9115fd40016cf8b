package convert

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func anAssignment() *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
	a.Namespace, a.Name = "desktops", "s"
	a.Spec = v1alpha1.SessionAssignmentSpec{
		Session: v1alpha1.SessionReference{Namespace: "desktops", Name: "s", UID: "u"}, Epoch: 1,
		Desktop: v1alpha1.Desktop{Image: "browser", Port: 8443},
	}
	return a
}

func TestATraceparentCrossesTheLinkAndIsNoPartOfTheHash(t *testing.T) {
	plain := AssignmentToWire(anAssignment())
	a := anAssignment()
	a.Annotations = map[string]string{v1alpha1.AnnotationTraceparent: traceparent}
	wire := AssignmentToWire(a)
	if wire.GetSpecHash() != plain.GetSpecHash() {
		t.Error("the traceparent changes the hash")
	}
	if more := proto.Size(wire) - proto.Size(plain); plain.GetTraceparent() != "" || more <= 0 || more > len(traceparent)+3 {
		t.Errorf("%d bytes more, and %q where it is not traced", more, plain.GetTraceparent())
	}
	back, err := AssignmentFromWire(wire)
	if err != nil || back.Annotations[v1alpha1.AnnotationTraceparent] != traceparent {
		t.Errorf("came back as %v (%v)", back, err)
	}
}

func TestAMalformedTraceparentIsIgnored(t *testing.T) {
	wire := AssignmentToWire(anAssignment())
	wire.Traceparent = strings.Repeat("x", 1<<20)
	back, err := AssignmentFromWire(wire)
	if err != nil || back.Annotations[v1alpha1.AnnotationTraceparent] != "" {
		t.Errorf("it was kept, or refused: %v", err)
	}
}
