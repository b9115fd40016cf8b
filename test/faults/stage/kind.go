package stage

// Kind is what a fleet has besides: only scenarios of one kind share one.
type Kind struct {
	// enrol: its agents joined with a token, and rotate certificates that the hub
	// issues. Such a scenario must be alone.
	Enrol bool
	// kubelets: its nodes' kubelets are simulated one by one, desktops have guards,
	// and what runs is told by the kubelets' logs. Its time runs by failoverPace
	// faster.
	Kubelets bool
}
