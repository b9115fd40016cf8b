package watch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

// kubeletUser is the user of test/harness/kubelet in the audit logs. It removes only Pods that are
// being deleted, and once.
const kubeletUser = "kubelet"

// kwokUser is the user of KWOK in the audit logs. It removes a Pod that is being deleted by its
// name alone, sometimes twice, and the second time may remove the next Pod of that name. A kubelet
// names the UID.
const kwokUser = "kwok"

// request is a write in an audit log. A watch shows its effect after it was received, and possibly
// before it was answered.
type request struct {
	Verb      string
	Time      time.Time `json:"requestReceivedTimestamp"`
	User      struct{ Username string }
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	Response  struct{ Code int } `json:"responseStatus"`
}

// deletionRequested reads from an audit log whether anything but a kubelet requested the end of a
// Pod, after it was created and before it was gone.
func deletionRequested(path string, pod checker.PodState, seen, gone time.Time) (bool, error) {
	log, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("reading the audit log: %w", err)
	}
	defer func() { _ = log.Close() }()
	requested := false
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(pod.Name)) {
			continue
		}
		var r request
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.Response.Code >= 300 {
			continue
		}
		at := r.ObjectRef
		switch ofPod := at.Resource == "pods" && at.Subresource == "" && at.Namespace == pod.Namespace && at.Name == pod.Name; {
		case !ofPod, r.Time.After(gone):
		case r.Verb == "create" && !r.Time.After(seen):
			requested = false // of the previous Pod
		case r.Verb == "delete" && r.User.Username != kwokUser && r.User.Username != kubeletUser:
			requested = true
		}
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("reading the audit log: %w", err)
	}
	return requested, nil
}
