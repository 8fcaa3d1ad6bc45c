package dag

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "2h30m": 150 * time.Minute, "30d": 30 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour,
		"01:30:00": 90 * time.Minute, "100:00:01": 100*time.Hour + time.Second, "-1d": -day, "0": 0, "5m": 5 * time.Minute,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "1d-2h", "-d", "1:30", "00:60:00", "1e9d", "106751d24h", "3 d", "1w"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

func TestDurationText(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", time.Hour: "1h", 24 * time.Hour: "1d", 30 * day: "30d", 36 * time.Hour: "1d12h",
		150 * time.Minute: "2h30m", time.Minute: "1m", 10 * time.Second: "10s", -day: "-1d", 20 * time.Millisecond: "20ms",
	} {
		if got := DurationText(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(-1<<62, 1<<62).Draw(t, "duration"))
		if got, err := ParseDuration(DurationText(d)); err != nil || got != d {
			t.Fatalf("%v is printed as %s and read as %v, %v", d, DurationText(d), got, err)
		}
	})
}
