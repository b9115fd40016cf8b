package session

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// With a console the URL is there before the session is placed, and stays when its desktop moves.
func TestTheURLInTheConsoleNeverChanges(t *testing.T) {
	const console = "https://vdi.example.com"
	h := newHubInMemory(t)
	h.Console = console
	s := h.pass()
	h.Expect(s.Status.URL).To(Equal(console + "/s/" + s.Namespace + "/" + s.Name))
	h.Expect(s.Status.Endpoint).To(BeNil())

	h = lostInMemory(t, func(s *v1alpha1.VDISession) { s.Status.Endpoint = &v1alpha1.SessionEndpoint{URL: s.Status.URL} })
	h.Console = console
	s = h.pass()
	h.Expect(s.Status.LastFailover).NotTo(BeNil())
	h.Expect(s.Status.URL).To(Equal(console + "/s/" + s.Namespace + "/" + s.Name))
	h.Expect(s.Status.Endpoint.URL).To(And(ContainSubstring(".example.com"), Not(Equal("https://old"))))

	// Without one it is again where the desktop is.
	h.Console = ""
	h.Expect(h.pass().Status.URL).To(Equal(s.Status.Endpoint.URL))
}
