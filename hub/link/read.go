package link

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// readReports reads what can be read, and says what can't.
func readReports(items []*fleetv1.AssignmentReport) (read []*v1alpha1.SessionAssignment, malformed []error) {
	for _, item := range items {
		a, err := convert.ReportFromWire(item)
		if err != nil {
			malformed = append(malformed, fmt.Errorf("reading report of %s/%s: %w", item.GetNamespace(), item.GetName(), err))
			continue
		}
		read = append(read, a)
	}
	return read, malformed
}

var codesOfWire = map[fleetv1.ResultCode]Code{
	fleetv1.ResultCode_RESULT_CODE_STORED:  Stored,
	fleetv1.ResultCode_RESULT_CODE_STOPPED: Stopped,
	fleetv1.ResultCode_RESULT_CODE_REFUSED: Refused,
}

func readResults(items []*fleetv1.OrderResult) (read []Result, malformed []error) {
	for _, item := range items {
		code, known := codesOfWire[item.GetCode()]
		if !known || item.GetSessionUid() == "" || item.GetEpoch() < 1 {
			malformed = append(malformed, fmt.Errorf("reading result of %s/%s: code %s, session %q, epoch %d",
				item.GetNamespace(), item.GetName(), item.GetCode(), item.GetSessionUid(), item.GetEpoch()))
			continue
		}
		read = append(read, Result{
			SessionUID: types.UID(item.SessionUid), Namespace: item.Namespace, Name: item.Name,
			Epoch: item.Epoch, SpecHash: item.SpecHash, Code: code,
			Reason: item.Reason, Message: item.Message, CountedFrom: item.CountedFromCapacity,
		})
	}
	return read, malformed
}
