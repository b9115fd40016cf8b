package reach

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vdi-fleet/vdi-fleet/hub/console/messages"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

func TestFindings(t *testing.T) {
	var asked atomic.Int32
	door := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != visit.HelloPath {
			t.Errorf("the console requests %s", r.URL.Path)
		}
	})
	answers := httptest.NewServer(door)
	defer answers.Close()
	untrusted := httptest.NewTLSServer(door)
	defer untrusted.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(answers.URL, http.StatusFound))
	defer elsewhere.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(answers.URL, "http://"))
	p := NewProber()
	for origin, want := range map[string]messages.HostKind{
		answers.URL: messages.HostAnswers, "http://alice.eu.vdi.localhost:" + port: messages.HostAnswers,
		untrusted.URL: messages.HostCertificate, other.URL: messages.HostNoDoor, elsewhere.URL: messages.HostNoDoor,
		"http://" + gone.Addr().String(): messages.HostNoAnswer, "https://desktop.invalid": messages.HostNoName,
	} {
		if got := p.Find(t.Context(), origin); got.Kind != want {
			t.Errorf("%s: %+v, not %s", origin, got, want)
		}
	}
	if got := p.Find(t.Context(), untrusted.URL); !strings.Contains(got.Detail, "it is for example.com") {
		t.Errorf("the certificate: %+v", got)
	}
	before := asked.Load()
	for range 5 {
		p.Find(t.Context(), answers.URL)
	}
	if asked.Load() != before {
		t.Error("the pages of one host try it more than once in ten seconds")
	}
}
