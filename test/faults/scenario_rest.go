package faults

func identities() []scenario { return nil }
func liars() []scenario      { return nil }
func loads() []scenario      { return nil }
func restores() []scenario   { return nil }
