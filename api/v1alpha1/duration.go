package v1alpha1

import "time"

// Duration is a length of time in hours, minutes, seconds and milliseconds, such as "8h",
// "90m" or "1h30m". It is a string and not a metav1.Duration, so that one invalid value
// does not break the decoding of a typed List: admission rejects invalid values, and
// Value treats one that is stored anyway as absent. The rule limits the digits of each
// unit, so that no sum overflows time.Duration.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="size(self) > 0 && self.matches('^([0-9]{1,6}([.][0-9]{1,3})?h)?([0-9]{1,7}([.][0-9]{1,3})?m)?([0-9]{1,9}([.][0-9]{1,3})?s)?([0-9]{1,12}ms)?$')",message="must be a duration in hours, minutes and seconds, such as 8h, 90m or 1h30m"
type Duration string

// Value returns the duration, and false if it is empty or malformed.
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

// longestDuration is the longest duration that admission accepts: 114 years.
const longestDuration = 999_999 * time.Hour

// DurationOf formats a duration for the API: in milliseconds precision, from 0 to
// 999999h.
func DurationOf(d time.Duration) Duration {
	d = min(max(d, 0), longestDuration)
	return Duration(d.Truncate(time.Millisecond).String())
}

// defaultStartTimeout is the start timeout of a desktop whose template has none.
const defaultStartTimeout = 5 * time.Minute

// StartTime returns how long the desktop may take to open its port.
func (d *Desktop) StartTime() time.Duration {
	if limit, ok := d.StartTimeout.Value(); ok && limit > 0 {
		return limit
	}
	return defaultStartTimeout
}
