package elastic

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// podLife is the life of a Pod in a member, as the audit log of its API server shows it. All API servers
// have the clock of this machine.
type podLife struct {
	member, name string
	// created is when its creation was requested, and gone when its last deletion was answered; zero if it
	// was not deleted.
	created, gone time.Time
}

// audited is a request in an audit log.
type audited struct {
	Verb      string
	Received  time.Time `json:"requestReceivedTimestamp"`
	Answered  time.Time `json:"stageTimestamp"`
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	Response  struct{ Code int } `json:"responseStatus"`
}

// podsOf returns the lives of all Pods of sessions in some members. Pods of sessions have the same name in
// all members.
func podsOf(members ...string) (out []podLife) {
	GinkgoHelper()
	for _, name := range members {
		log, err := os.Open(fleet.Member(name).ControlPlane.AuditLog())
		Expect(err).NotTo(HaveOccurred())
		lines := bufio.NewScanner(log)
		lines.Buffer(nil, 1<<20)
		var requests []audited
		for lines.Scan() {
			var r audited
			if json.Unmarshal(lines.Bytes(), &r) == nil { // the last line may be incomplete
				requests = append(requests, r)
			}
		}
		Expect(lines.Err()).NotTo(HaveOccurred())
		Expect(log.Close()).To(Succeed())
		out = append(out, livesOf(name, requests)...)
	}
	return out
}

// livesOf returns the lives of the Pods of a member by its requests, which are in the order of their answers.
func livesOf(member string, requests []audited) (out []podLife) {
	last := map[string]int{}
	for _, r := range requests {
		at := r.ObjectRef
		if at.Resource != "pods" || at.Subresource != "" || at.Namespace != namespace || r.Response.Code >= 300 {
			continue
		}
		switch i, known := last[at.Name]; {
		case r.Verb == "create":
			last[at.Name] = len(out)
			out = append(out, podLife{member: member, name: at.Name, created: r.Received})
		case r.Verb == "delete" && known:
			out[i].gone = r.Answered
		}
	}
	return out
}

// overlapping returns the Pods that were created before another one of their name was gone.
func overlapping(pods []podLife) (out []string) {
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b podLife) int {
		return cmp.Or(cmp.Compare(a.name, b.name), a.created.Compare(b.created))
	})
	for i := 1; i < len(sorted); i++ {
		if before, p := sorted[i-1], sorted[i]; before.name == p.name && (before.gone.IsZero() || before.gone.After(p.created)) {
			out = append(out, fmt.Sprintf("%s was created in %s at %s, and was gone in %s at %s", p.name, p.member,
				p.created.Format(time.StampMilli), before.member, before.gone.Format(time.StampMilli)))
		}
	}
	return out
}

func TestPodsThatOverlapAreFound(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	request := func(ms int, verb string, code int) audited {
		r := audited{Verb: verb, Received: began.Add(time.Duration(ms) * time.Millisecond)}
		r.Answered, r.Response.Code = r.Received.Add(5*time.Millisecond), code
		r.ObjectRef.Resource, r.ObjectRef.Namespace, r.ObjectRef.Name = "pods", namespace, "p"
		return r
	}
	binding := request(1, "create", 201)
	binding.ObjectRef.Subresource = "binding"
	for name, tc := range map[string]struct {
		eu, us []audited
		want   int
	}{
		"one after the other":               {[]audited{request(0, "create", 201), binding, request(10, "delete", 200)}, []audited{request(15, "create", 201)}, 0},
		"before the deletion was answered":  {[]audited{request(0, "create", 201), request(10, "delete", 200)}, []audited{request(14, "create", 201)}, 1},
		"before the kubelet has removed it": {[]audited{request(0, "create", 201), request(10, "delete", 200), request(30, "delete", 200)}, []audited{request(20, "create", 201)}, 1},
		"while the other one stays":         {[]audited{request(0, "create", 201)}, []audited{request(20, "create", 201)}, 1},
		"refused":                           {[]audited{request(0, "create", 201)}, []audited{request(20, "create", 403)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pods := append(livesOf("eu", tc.eu), livesOf("us", tc.us)...)
			if got := overlapping(pods); len(got) != tc.want {
				t.Errorf("found %v, want %d", got, tc.want)
			}
		})
	}
}
