package protocol

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// reportFromWire is convert.ReportFromWire with a bound on the epoch.
func reportFromWire(item *fleetv1.AssignmentReport) (*v1alpha1.SessionAssignment, error) {
	c := convert.Checks{}
	if c.AtMost("epoch", item.GetEpoch(), maxEpoch); c.Err != nil {
		return nil, c.Err
	}
	return convert.ReportFromWire(item)
}

// readReports reads reports with their hashes. One with a malformed status is Unread.
func readReports(items []*fleetv1.AssignmentReport) (read []Report, malformed []error) {
	for _, item := range items {
		report, err := readOne(item)
		if err != nil {
			malformed = append(malformed, fmt.Errorf("reading report of %s/%s: %w", item.GetNamespace(), item.GetName(), err))
		}
		if report.SessionAssignment != nil {
			read = append(read, report)
		}
	}
	return read, malformed
}

func readOne(item *fleetv1.AssignmentReport) (Report, error) {
	if item.GetGone() {
		// It has no epoch.
		bare, err := reportFromWire(namesOf(item, 1))
		return Report{SessionAssignment: bare, Gone: true}, err
	}
	report := Report{Hash: convert.ItemHash(item.GetSessionUid(), item.GetEpoch(), item.GetSpecHash(), item.GetReportHash())}
	var err error
	if report.SessionAssignment, err = reportFromWire(item); err == nil {
		return report, nil
	}
	if bare, bareErr := reportFromWire(namesOf(item, item.GetEpoch())); bareErr == nil {
		report.SessionAssignment, report.Unread = bare, true
	}
	return report, err
}

func namesOf(item *fleetv1.AssignmentReport, epoch int64) *fleetv1.AssignmentReport {
	return &fleetv1.AssignmentReport{
		SessionUid: item.GetSessionUid(), Namespace: item.GetNamespace(), Name: item.GetName(), Epoch: epoch,
	}
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
		if err := boundResult(item); err != nil {
			malformed = append(malformed, fmt.Errorf("reading result: %w", err))
			continue
		}
		read = append(read, Result{
			SessionUID: types.UID(item.SessionUid), Namespace: item.Namespace, Name: item.Name,
			Epoch: item.Epoch, SpecHash: item.SpecHash, Code: code,
			Reason: item.Reason, Message: convert.Sentence(item.Message, convert.MaxMessage), CountedFrom: item.CountedFromCapacity,
		})
	}
	return read, malformed
}

// Restrictions reads those of the member's administrator, nil if the agent does not report
// them.
func Restrictions(r *fleetv1.Restrictions) *v1alpha1.MemberRestrictions {
	if r == nil {
		return nil
	}
	return &v1alpha1.MemberRestrictions{
		HostSuffixes: r.GetHostSuffixes(), ImagePrefixes: r.GetImagePrefixes(),
		RuntimeClasses: r.GetRuntimeClasses(), PriorityClasses: r.GetPriorityClasses(),
		AllowOpenNetwork: r.GetOpenNetwork(), AllowPrivateEgress: r.GetPrivateEgress(),
		AllowLinkLocalEgress: r.GetLinkLocalEgress(), AllowControlPlane: r.GetControlPlane(),
	}
}
