package messages

// HostKind is what prevents a browser from reaching the host of a desktop.
type HostKind string

// The kinds.
const (
	// HostNoName: the host has no address.
	HostNoName HostKind = "no name"
	// HostCertificate: the host's certificate is not valid for it.
	HostCertificate HostKind = "certificate"
	// HostNoAnswer: nothing accepts the connection.
	HostNoAnswer HostKind = "no answer"
	// HostNoDoor: what answers is not a door.
	HostNoDoor HostKind = "no door"
	// HostAnswers: the door answers the console.
	HostAnswers HostKind = "answers"
)

// Finding is what the console finds where a browser does not reach a host.
type Finding struct {
	Kind HostKind
	// Detail is the cause of HostCertificate, and the status of the answer of HostNoDoor.
	Detail string
}

// Unreachable returns what a user reads whose browser does not reach the host of a desktop, and the details for
// administrators.
func Unreachable(host string, found Finding) (sentence, details string) {
	switch found.Kind {
	case HostNoName:
		return "The address " + host + " does not exist. Ask your administrator to set up the names of desktops.",
			"The domain spec.ingressDomain of the MemberCluster needs a wildcard record in DNS that leads to the member's ingress."
	case HostCertificate:
		return "The certificate of " + host + " is not valid, so that browsers refuse it. Ask your administrator.", found.Detail
	case HostNoAnswer:
		return host + " does not answer. It is tried again; if it lasts, ask your administrator.",
			"Nothing accepts connections where the name leads: check the member's ingress, and the NetworkPolicy of the console if only the console is refused."
	case HostNoDoor:
		return host + " answers, but not as it should. It is tried again; if it lasts, ask your administrator.",
			"The member's ingress answers " + found.Detail + ": check its Ingress or HTTPRoute vdi-door, and the door's Pods."
	default:
		return "The system reaches " + host + ", your browser does not. Check your network, your VPN, or what your browser blocks.", ""
	}
}
