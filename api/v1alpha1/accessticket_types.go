package v1alpha1

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TicketAccess is what an AccessTicket requests.
//
// +kubebuilder:validation:Enum=Console
type TicketAccess string

// AccessConsole requests a login of the console.
const AccessConsole TicketAccess = "Console"

// TicketLifetime is how long after its creation a ticket can be redeemed.
const TicketLifetime = time.Minute

// The ConfigMap in the hub's namespace that publishes the console's address.
const (
	ConsoleConfigMap = "vdi-console"
	ConsoleURLKey    = "url"
)

// TicketChallenge returns the challenge of a ticket's secret.
func TicketChallenge(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// AccessTicketSpec is a user's request for access, which the console redeems once. The API server
// has authenticated the user, and admission requires that user and groups are the user's own.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a ticket is immutable: create another one"
type AccessTicketSpec struct {
	// access that is requested. Console: a login of the console in a browser.
	Access TicketAccess `json:"access"`

	// user who requests it: the name of the user who creates the ticket.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`

	// groups of that user. At most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Groups []string `json:"groups,omitempty"`

	// challenge is the SHA-256 hash, in base64url without padding, of a secret that only the client
	// has. Whoever redeems the ticket must send the secret: to read the ticket does not suffice.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_-]{43}$')",message="must be the SHA-256 hash of a secret in base64url without padding: 43 characters"
	Challenge string `json:"challenge"`
}

// AccessTicket is a request of the user of a kubeconfig for access by the console, such as a login. It is
// redeemed once, within 60 s of its creation, which deletes it. `kubectl vdi console` creates one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vdiat,categories=vdi
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Access",type=string,JSONPath=`.spec.access`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AccessTicket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AccessTicketSpec `json:"spec"`
}

// AccessTicketList is a list of AccessTickets.
//
// +kubebuilder:object:root=true
type AccessTicketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AccessTicket `json:"items"`
}
