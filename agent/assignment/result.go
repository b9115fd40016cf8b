package assignment

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func stored(a *v1alpha1.SessionAssignment, countedFrom uint64) *fleetv1.OrderResult {
	r := resultFor(a)
	r.Code, r.CountedFromCapacity = fleetv1.ResultCode_RESULT_CODE_STORED, countedFrom
	return r
}

func refused(a *v1alpha1.SessionAssignment, reason, message string) *fleetv1.OrderResult {
	r := resultFor(a)
	r.Code, r.Reason, r.Message = fleetv1.ResultCode_RESULT_CODE_REFUSED, reason, message
	return r
}

func staleEpoch(a *v1alpha1.SessionAssignment, lowest int64) *fleetv1.OrderResult {
	return refused(a, v1alpha1.RefusedStaleEpoch,
		fmt.Sprintf("epoch %d is stale: the member accepts epoch %d or higher of this session", a.Spec.Epoch, lowest))
}

func resultFor(a *v1alpha1.SessionAssignment) *fleetv1.OrderResult {
	return &fleetv1.OrderResult{
		SessionUid: string(a.Spec.Session.UID), Namespace: a.Namespace, Name: a.Name,
		Epoch: a.Spec.Epoch, SpecHash: a.Annotations[v1alpha1.AnnotationSpecHash],
	}
}

func withdrawalResult(w *fleetv1.Withdrawal, code fleetv1.ResultCode) *fleetv1.OrderResult {
	return &fleetv1.OrderResult{
		SessionUid: w.GetSessionUid(), Namespace: w.GetNamespace(), Name: w.GetName(),
		Epoch: w.GetUpToEpoch(), Code: code,
	}
}
