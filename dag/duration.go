package dag

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	wholeDays = regexp.MustCompile(`^(-?)(\d+(?:\.\d+)?)d(.*)$`)
	clockTime = regexp.MustCompile(`^(\d+):([0-5]\d):([0-5]\d)$`)

	errDuration = errors.New("no duration: write a number with its unit, such as 90s, 5m, 1h30m or 30d, or HH:MM:SS")
)

// ParseDuration reads a duration as people write it: 90s, 2h30m, 30d, 1d12h, 01:30:00.
func ParseDuration(s string) (time.Duration, error) {
	if m := clockTime.FindStringSubmatch(s); m != nil {
		s = m[1] + "h" + m[2] + "m" + m[3] + "s"
	}
	m := wholeDays.FindStringSubmatch(s)
	if m == nil {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, errDuration
		}
		return d, nil
	}
	days, err := strconv.ParseFloat(m[2], 64)
	if err != nil || days > math.MaxInt64/float64(24*time.Hour) {
		return 0, errDuration
	}
	d := time.Duration(days * float64(24*time.Hour))
	if m[3] != "" {
		rest, err := time.ParseDuration(m[3])
		if err != nil || strings.HasPrefix(m[3], "-") || rest > math.MaxInt64-d {
			return 0, errDuration
		}
		d += rest
	}
	if m[1] != "" {
		d = -d
	}
	return d, nil
}

// DurationText prints a duration as ParseDuration reads it, without units that are 0.
func DurationText(d time.Duration) string {
	if d < 0 {
		return "-" + DurationText(-d)
	}
	const day = 24 * time.Hour
	days, rest := d/day, d%day
	text := rest.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	switch {
	case days > 0 && rest == 0:
		return fmt.Sprintf("%dd", days)
	case days > 0:
		return fmt.Sprintf("%dd%s", days, text)
	}
	return text
}
