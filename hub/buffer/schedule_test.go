package buffer

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// at reads a time of UTC.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func between(slots int32, from, to, zone string, days ...v1alpha1.Weekday) v1alpha1.BufferPeriod {
	return v1alpha1.BufferPeriod{Days: days, From: from, To: to, TimeZone: zone, Slots: slots}
}

// Clocks of Berlin go forward at 2026-03-29 01:00 UTC, from 02:00 to 03:00, and back at 2026-10-25 01:00 UTC, from
// 03:00 to 02:00. 2026-03-02 is a Monday.
func TestSlotsAtATime(t *testing.T) {
	morning := between(60, "07:30", "09:30", "Europe/Berlin", "Mon", "Tue", "Wed", "Thu", "Fri")
	for _, tc := range []struct {
		name     string
		schedule []v1alpha1.BufferPeriod
		now      string
		slots    int32
		next     string
	}{
		{"no schedule", nil, "2026-03-02 06:00:00", 5, ""},
		{"before it begins", []v1alpha1.BufferPeriod{morning}, "2026-03-02 06:29:59", 5, "2026-03-02 06:30:00"},
		{"as it begins", []v1alpha1.BufferPeriod{morning}, "2026-03-02 06:30:00", 60, "2026-03-02 08:30:00"},
		{"before it ends", []v1alpha1.BufferPeriod{morning}, "2026-03-02 08:29:59", 60, "2026-03-02 08:30:00"},
		{"as it ends", []v1alpha1.BufferPeriod{morning}, "2026-03-02 08:30:00", 5, "2026-03-03 06:30:00"},
		{"over the weekend", []v1alpha1.BufferPeriod{morning}, "2026-03-06 08:30:00", 5, "2026-03-09 06:30:00"},
		{"an hour earlier in summer", []v1alpha1.BufferPeriod{morning}, "2026-03-30 05:30:00", 60, "2026-03-30 07:30:00"},
		{"one day a week, after it", []v1alpha1.BufferPeriod{between(9, "08:00", "09:00", "UTC", "Mon")}, "2026-03-02 09:00:00", 5, "2026-03-09 08:00:00"},
		{"UTC by default", []v1alpha1.BufferPeriod{between(9, "08:00", "09:00", "")}, "2026-03-02 08:59:00", 9, "2026-03-02 09:00:00"},
		{"a period that lowers", []v1alpha1.BufferPeriod{between(0, "00:00", "24:00", "UTC", "Sat", "Sun")}, "2026-03-07 12:00:00", 0, "2026-03-08 00:00:00"},
		{"a whole day ends with it", []v1alpha1.BufferPeriod{between(9, "00:00", "24:00", "UTC", "Sat")}, "2026-03-08 00:00:00", 5, "2026-03-14 00:00:00"},

		{"over midnight, in the evening", []v1alpha1.BufferPeriod{between(9, "22:00", "02:00", "UTC", "Mon")}, "2026-03-02 23:00:00", 9, "2026-03-03 02:00:00"},
		{"over midnight, on the next day", []v1alpha1.BufferPeriod{between(9, "22:00", "02:00", "UTC", "Mon")}, "2026-03-03 01:59:59", 9, "2026-03-03 02:00:00"},
		{"over midnight, not on its day before", []v1alpha1.BufferPeriod{between(9, "22:00", "02:00", "UTC", "Mon")}, "2026-03-02 01:00:00", 5, "2026-03-02 22:00:00"},

		{"overlap: the largest", []v1alpha1.BufferPeriod{between(7, "08:00", "12:00", "UTC"), between(9, "10:00", "11:00", "UTC"), between(8, "10:00", "11:00", "UTC")}, "2026-03-02 10:30:00", 9, "2026-03-02 11:00:00"},
		{"overlap: the other that remains", []v1alpha1.BufferPeriod{between(7, "08:00", "12:00", "UTC"), between(9, "10:00", "11:00", "UTC")}, "2026-03-02 11:00:00", 7, "2026-03-02 12:00:00"},
		{"overlap: two that are below the rest", []v1alpha1.BufferPeriod{between(1, "08:00", "12:00", "UTC"), between(2, "10:00", "11:00", "UTC")}, "2026-03-02 10:30:00", 2, "2026-03-02 11:00:00"},
		{"two zones", []v1alpha1.BufferPeriod{between(7, "09:00", "10:00", "America/New_York"), between(9, "09:00", "10:00", "Asia/Kolkata")}, "2026-03-02 03:29:00", 5, "2026-03-02 03:30:00"},

		{"clocks go forward over its begin", []v1alpha1.BufferPeriod{between(9, "02:30", "04:00", "Europe/Berlin")}, "2026-03-29 00:59:59", 5, "2026-03-29 01:00:00"},
		{"clocks have gone forward over its begin", []v1alpha1.BufferPeriod{between(9, "02:30", "04:00", "Europe/Berlin")}, "2026-03-29 01:00:00", 9, "2026-03-29 02:00:00"},
		{"clocks go forward over its end", []v1alpha1.BufferPeriod{between(9, "01:00", "02:30", "Europe/Berlin")}, "2026-03-29 00:30:00", 9, "2026-03-29 01:00:00"},
		{"clocks go forward over all of it", []v1alpha1.BufferPeriod{between(9, "02:15", "02:45", "Europe/Berlin")}, "2026-03-29 00:30:00", 5, "2026-03-30 00:15:00"},
		{"clocks go forward within it", []v1alpha1.BufferPeriod{between(9, "01:30", "03:30", "Europe/Berlin")}, "2026-03-29 01:15:00", 9, "2026-03-29 01:30:00"},
		{"clocks go back after its begin: it does not begin again", []v1alpha1.BufferPeriod{between(9, "02:30", "04:00", "Europe/Berlin")}, "2026-10-25 00:30:00", 9, "2026-10-25 03:00:00"},
		{"clocks have gone back before its begin again", []v1alpha1.BufferPeriod{between(9, "02:30", "04:00", "Europe/Berlin")}, "2026-10-25 01:15:00", 9, "2026-10-25 03:00:00"},
		{"clocks go back before its end: the second", []v1alpha1.BufferPeriod{between(9, "01:00", "02:30", "Europe/Berlin")}, "2026-10-25 00:45:00", 9, "2026-10-25 01:30:00"},
		{"half an hour, Lord Howe", []v1alpha1.BufferPeriod{between(9, "02:15", "03:00", "Australia/Lord_Howe")}, "2026-10-03 15:30:00", 9, "2026-10-03 16:00:00"},
		{"a day that Samoa skipped", []v1alpha1.BufferPeriod{between(9, "08:00", "09:00", "Pacific/Apia", "Fri")}, "2011-12-30 10:30:00", 5, "2012-01-05 18:00:00"},
		{"over a day that Samoa skipped", []v1alpha1.BufferPeriod{between(9, "22:00", "02:00", "Pacific/Apia", "Thu")}, "2011-12-30 09:00:00", 9, "2011-12-30 10:00:00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			slots, next, err := Slots(&v1alpha1.Buffer{Template: "browser", Slots: 5, Schedule: tc.schedule}, at(t, tc.now))
			var want time.Time
			if tc.next != "" {
				want = at(t, tc.next)
			}
			if err != nil || slots != tc.slots || !next.Equal(want) {
				t.Errorf("%d slots until %s, want %d until %s: %v", slots, next.UTC(), tc.slots, want, err)
			}
		})
	}
}

func TestPeriodsThatCantBeReadDoNotCount(t *testing.T) {
	for _, bad := range []v1alpha1.BufferPeriod{
		between(90, "00:00", "24:00", "Europe/Atlantis"), between(90, "soon", "24:00", "UTC"), between(90, "00:00", "24", "UTC"),
	} {
		b := &v1alpha1.Buffer{Slots: 5, Schedule: []v1alpha1.BufferPeriod{bad, between(9, "08:00", "09:00", "UTC")}}
		slots, next, err := Slots(b, at(t, "2026-03-02 08:30:00"))
		if slots != 9 || !next.Equal(at(t, "2026-03-02 09:00:00")) || err == nil {
			t.Errorf("%v: %d slots until %s, %v", bad, slots, next, err)
		}
	}
	_, _, err := Slots(&v1alpha1.Buffer{Schedule: []v1alpha1.BufferPeriod{between(9, "08:00", "09:00", "Europe/Atlantis")}}, at(t, "2026-03-02 08:30:00"))
	if err == nil || !strings.Contains(err.Error(), "Europe/Atlantis") {
		t.Errorf("the error does not name the zone: %v", err)
	}
}

// Nothing changes before the time of the next change, and the order of the periods does not matter.
func TestNothingChangesBeforeTheNextChange(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca"}
	clock := rapid.Custom(func(t *rapid.T) string {
		return time.Time{}.Add(time.Duration(rapid.IntRange(0, 24*60-1).Draw(t, "minute")) * time.Minute).Format("15:04")
	})
	periods := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1alpha1.BufferPeriod {
		days := rapid.SliceOfNDistinct(rapid.SampledFrom(v1alpha1.Weekdays[:]), 0, 3, rapid.ID).Draw(t, "days")
		return between(rapid.Int32Range(0, 9).Draw(t, "slots"), clock.Draw(t, "from"), clock.Draw(t, "to"), rapid.SampledFrom(zones).Draw(t, "zone"), days...)
	}), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		b := &v1alpha1.Buffer{Slots: 5, Schedule: periods.Draw(t, "schedule")}
		now := time.Unix(rapid.Int64Range(1293840000, 1893456000).Draw(t, "now"), 0)
		slots, next, err := Slots(b, now)
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() {
			if len(b.Schedule) > 0 {
				t.Fatal("a weekly period never begins again")
			}
			return
		}
		if !next.After(now) || next.Sub(now) > 9*24*time.Hour {
			t.Fatalf("the next change of %s is at %s", now, next)
		}
		for _, part := range []int64{1, 2, 3} {
			if other, _, _ := Slots(b, now.Add(next.Sub(now)*time.Duration(part)/3-time.Nanosecond)); other != slots {
				t.Fatalf("%d slots at %s, and %d before the next change at %s", slots, now, other, next)
			}
		}
		for i, j := 0, len(b.Schedule)-1; i < j; i, j = i+1, j-1 {
			b.Schedule[i], b.Schedule[j] = b.Schedule[j], b.Schedule[i]
		}
		if other, at, _ := Slots(b, now); other != slots || !at.Equal(next) {
			t.Fatalf("%d slots until %s, and %d until %s in the opposite order", slots, next, other, at)
		}
	})
}
