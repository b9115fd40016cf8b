package faults

import "testing"

func soak(t *testing.T, s settings) []row { return pass(t, s) }
