package v1alpha1

// MaxBuffers limits MemberClusterSpec.Buffers.
const MaxBuffers = 64

// BufferPriorityClass is the name of the PriorityClass of the Pods of buffers, which the agent's
// chart creates. Its value is negative: every desktop preempts such a Pod.
const BufferPriorityClass = "vdi-buffer"

// Buffer is a number of slots for sessions of a template that the member keeps free ahead of demand.
type Buffer struct {
	// template is the name of the VDITemplate.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="must be the name of a VDITemplate: lower case letters, digits and -"
	Template string `json:"template"`

	// slots is the number of slots outside of the periods of the schedule, from 0 to 10000. A slot
	// is capacity for one session with the template's default resources. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Slots int32 `json:"slots"`

	// schedule lists periods with a number of slots of their own, which replaces slots. Of periods
	// that overlap, the largest number applies. At most 16. Defaults to none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Schedule []BufferPeriod `json:"schedule,omitempty"`
}

// BufferPeriod is a weekly period of a buffer's schedule. It begins on each of its days, and lasts
// at most 24 hours by the clocks of its time zone.
//
// +kubebuilder:validation:XValidation:rule="self.from != self.to",message="from and to must differ: for a whole day set from to 00:00 and to to 24:00"
type BufferPeriod struct {
	// days on which the period begins, at least one. Defaults to every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`

	// from is the time of day at which the period begins, from 00:00 to 23:59. A time that the
	// clocks skip is the moment of their change; of one that occurs twice, the first counts.
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="must be a time of day from 00:00 to 23:59, such as 07:30"
	From string `json:"from"`

	// to is the time of day at which the period ends, from 00:00 to 24:00: on the next day, if it is
	// before from. A time that the clocks skip is the moment of their change; of one that occurs
	// twice, the second counts.
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$')",message="must be a time of day from 00:00 to 24:00, such as 09:30"
	To string `json:"to"`

	// timeZone is the name of the time zone of from, to and days, as in the IANA database. Defaults
	// to UTC.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*([-+_/][-+A-Za-z0-9_]+)*$') && self != 'Local' && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",message="must be the name of a time zone, such as Europe/Berlin or UTC"
	TimeZone string `json:"timeZone,omitempty"`

	// slots is the number of slots in the period, from 0 to 10000.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Slots int32 `json:"slots"`
}

// Weekday is a day of the week.
//
// +kubebuilder:validation:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
type Weekday string

// Weekdays are the days of the week, by time.Weekday.
var Weekdays = [...]Weekday{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// BufferStatus is the state of a buffer, as the member reports it.
type BufferStatus struct {
	// template is the name of the VDITemplate.
	Template string `json:"template"`
	// slots is the number of slots that the buffer is to hold now, by its schedule.
	// +optional
	Slots int32 `json:"slots"`
	// held is the number of slots that it holds on nodes, at once usable by sessions.
	// +optional
	Held int32 `json:"held"`
	// pending is the number of slots that it is about to hold: their Pods start, or wait for nodes
	// that are being added.
	// +optional
	Pending int32 `json:"pending"`
	// reason why the buffer is not kept, in CamelCase. Absent if it is, apart from what is pending.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message explains why it is not kept, and the remedy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
