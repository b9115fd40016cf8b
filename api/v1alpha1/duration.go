package v1alpha1

import "time"

// Duration is a length of time as text that time.ParseDuration reads, such as
// "8h", "90m" or "1h30m". It is a string, not a metav1.Duration, so that one
// bad value cannot break everyone's typed List: the pattern refuses it at
// admission, and Value reads a bad one that slipped by as absent.
//
// +kubebuilder:validation:Pattern=`^([0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h)){1,4}$`
// +kubebuilder:validation:MaxLength=32
type Duration string

// Value returns the duration, and false if there is none or it is malformed.
func (d Duration) Value() (time.Duration, bool) {
	if d == "" {
		return 0, false
	}
	v, err := time.ParseDuration(string(d))
	if err != nil || v < 0 {
		return 0, false
	}
	return v, true
}

// DurationOf writes a duration in the form that Value reads.
func DurationOf(d time.Duration) Duration { return Duration(d.String()) }
