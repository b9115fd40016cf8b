package stage

// Kind is the optional parts of a fleet. Only scenarios of one kind share a fleet.
type Kind struct {
	// Enroll makes its agents join with a token, and rotate certificates that the hub issues. Such
	// a scenario must be Alone.
	Enroll bool
	// Kubelets simulates the kubelets of its nodes one by one: desktops have guards, and the
	// kubelets' logs show what runs. Its time runs faster by failoverTimeFactor.
	Kubelets bool
	// Growing gives its members no nodes, and each a Karpenter that adds them (see LimitNodes): bin/karpenter
	// must exist.
	Growing bool
	// Consoles gives it two replicas of the console.
	Consoles bool
	// Doors gives its members doors, for which it needs Consoles, and Kubelets for desktops behind them.
	Doors bool
}
