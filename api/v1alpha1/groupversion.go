package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind of this package.
const GroupName = "vdi.kasm.io"

var (
	// GroupVersion is the group and version of every kind of this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// SchemeBuilder collects the functions that register the kinds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this package in a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&VDISession{}, &VDISessionList{},
		&VDITemplate{}, &VDITemplateList{},
		&VDIHome{}, &VDIHomeList{},
		&MemberCluster{}, &MemberClusterList{},
		&PlacementPolicy{}, &PlacementPolicyList{},
		&PlacementReview{}, &PlacementReviewList{},
		&SessionAssignment{}, &SessionAssignmentList{},
		&AccessTicket{}, &AccessTicketList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
