package v1alpha1

import "time"

// Duration is a length of time as text that time.ParseDuration reads, such as
// "8h", "90m" or "1h30m". It is a string, not a metav1.Duration, so that one
// bad value cannot break everyone's typed List: a rule refuses it at
// admission, and Value reads a bad one that slipped by as absent. The rule
// bounds the digits of each unit, so that no sum overflows time.Duration.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="size(self) > 0 && self.matches('^([0-9]{1,6}([.][0-9]{1,3})?h)?([0-9]{1,7}([.][0-9]{1,3})?m)?([0-9]{1,9}([.][0-9]{1,3})?s)?([0-9]{1,12}ms)?$')",message="a length of time is hours, minutes and seconds, such as 8h, 90m or 1h30m"
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

// longestDuration is the longest that admission takes: 114 years.
const longestDuration = 999_999 * time.Hour

// DurationOf writes a duration in the form that admission takes and Value
// reads: to the millisecond, no less than zero, no more than 999999h.
func DurationOf(d time.Duration) Duration {
	d = min(max(d, 0), longestDuration)
	return Duration(d.Truncate(time.Millisecond).String())
}

// defaultStartTimeout is how long a desktop may take to open its port whose template does
// not say.
const defaultStartTimeout = 5 * time.Minute

// StartTime returns how long the desktop may take to open its port.
func (d *Desktop) StartTime() time.Duration {
	if limit, ok := d.StartTimeout.Value(); ok && limit > 0 {
		return limit
	}
	return defaultStartTimeout
}
