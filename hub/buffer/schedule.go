package buffer

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Slots returns how many slots a buffer is to hold at a time, and when a period of its schedule begins or
// ends next; zero if none does. Periods that can't be read, because of a time zone that this machine does
// not know for instance, count as if they were not there, and the error names the first of them.
func Slots(b *v1alpha1.Buffer, now time.Time) (slots int32, next time.Time, err error) {
	active := false
	for i := range b.Schedule {
		p, unreadable := read(&b.Schedule[i])
		if unreadable != nil {
			if err == nil {
				err = unreadable
			}
			continue
		}
		in, change := p.at(now)
		if in {
			slots, active = max(slots, b.Schedule[i].Slots), true
		}
		if !change.IsZero() && (next.IsZero() || change.Before(next)) {
			next = change
		}
	}
	if !active {
		slots = b.Slots
	}
	return slots, next, err
}

// period is a period of a schedule. from and to are minutes of a day, to that of the next day if it is more
// than a day's.
type period struct {
	days     [7]bool
	from, to int
	zone     *time.Location
}

const day = 24 * 60

func read(p *v1alpha1.BufferPeriod) (out period, err error) {
	name := p.TimeZone
	if name == "" {
		name = "UTC"
	}
	if out.zone, err = time.LoadLocation(name); err != nil {
		return period{}, err
	}
	if out.from, err = minutes(p.From); err != nil {
		return period{}, err
	}
	if out.to, err = minutes(p.To); err != nil {
		return period{}, err
	}
	if out.to <= out.from {
		out.to += day
	}
	for i, name := range v1alpha1.Weekdays {
		out.days[i] = len(p.Days) == 0 || slices.Contains(p.Days, name)
	}
	return out, nil
}

// minutes reads a time of day as HH:MM, 24:00 included.
func minutes(text string) (int, error) {
	hour, minute, _ := strings.Cut(text, ":")
	h, err := strconv.ParseUint(hour, 10, 8)
	if err != nil {
		return 0, err
	}
	m, err := strconv.ParseUint(minute, 10, 8)
	if err != nil {
		return 0, err
	}
	return int(h)*60 + int(m), nil
}

// at reports whether a time is in the period, and returns the first time after it at which the period begins
// or ends; zero if it never does.
func (p *period) at(now time.Time) (in bool, next time.Time) {
	year, month, today := now.In(p.zone).Date()
	// One that began two days ago may end today, where the clocks skipped a day. Each weekday follows within
	// seven days; an occurrence whose day was skipped is empty.
	for d := today - 2; d <= today+8; d++ {
		if !p.days[time.Date(year, month, d, 0, 0, 0, 0, time.UTC).Weekday()] {
			continue
		}
		begins, ends := p.instant(year, month, d, p.from, false), p.instant(year, month, d, p.to, true)
		if !begins.Before(ends) {
			continue
		}
		in = in || !now.Before(begins) && now.Before(ends)
		for _, change := range []time.Time{begins, ends} {
			if change.After(now) && (next.IsZero() || change.Before(next)) {
				next = change
			}
		}
	}
	return in, next
}

// instant returns the time at which the clocks of the zone show a minute of a day. If they show it twice, it is
// the last or the first time; if they skip it, the time at which they are changed.
func (p *period) instant(year int, month time.Month, d, minute int, last bool) time.Time {
	wall := time.Date(year, month, d, 0, minute, 0, 0, time.UTC)
	guess := time.Date(year, month, d, 0, minute, 0, 0, p.zone)
	start, end := guess.ZoneBounds()
	around := []time.Time{guess}
	if !start.IsZero() {
		around = append(around, start.Add(-time.Second))
	}
	if !end.IsZero() {
		around = append(around, end)
	}
	var found []time.Time
	for _, t := range around {
		at := inZoneOf(t, wall)
		if _, offset := at.Zone(); wall.Equal(at.Add(time.Duration(offset) * time.Second)) {
			found = append(found, at)
		}
	}
	switch {
	case len(found) == 0 && shows(guess).Before(wall):
		return end
	case len(found) == 0:
		return start
	case last:
		return slices.MaxFunc(found, time.Time.Compare)
	}
	return slices.MinFunc(found, time.Time.Compare)
}

// inZoneOf returns the time of clocks with the offset that those of another time have.
func inZoneOf(t, wall time.Time) time.Time {
	_, offset := t.Zone()
	return wall.Add(-time.Duration(offset) * time.Second).In(t.Location())
}

// shows returns the reading of clocks, as a time of UTC.
func shows(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second)
}
