package amount

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"8GiB": 8 << 30, "64g": 64 << 30, "512MiB": 512 << 20, "1.5GiB": 3 << 29, "0": 0, "100": 100} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "much", "-1GiB", "5XiB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
}

func TestParseBandwidth(t *testing.T) {
	for text, want := range map[string]float64{"10Gbit/s": 1e10, "2.5 Gbit/s": 2.5e9, "100Mbit/s": 1e8, "5kbit/s": 5000, "7bit/s": 7, "1Tbit/s": 1e12} {
		if got, err := ParseBandwidth(text); err != nil || got != want {
			t.Errorf("%s is %g, %v; want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "10G", "10GB/s", "-1Gbit/s", "Gbit/s"} {
		if got, err := ParseBandwidth(text); err == nil {
			t.Errorf("%q is %g, want an error", text, got)
		}
	}
}

// Flags show the default of a duration in one way, and none that is 0.
func TestFlags(t *testing.T) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	var d, none time.Duration
	var n int64
	var b float64
	Duration(f, &d, "for", 24*time.Hour, "validity")
	Duration(f, &none, "age", 0, "unused for this long")
	Size(f, &n, "keep", "size to keep")
	Bandwidth(f, &b, "bandwidth", "between hosts")
	const want = `      --age duration          unused for this long
      --bandwidth bandwidth   between hosts
      --for duration          validity (default 1d)
      --keep size             size to keep
`
	if got := f.FlagUsages(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if err := f.Parse([]string{"--for", "30d", "--keep=5GiB", "--bandwidth", "1Gbit/s", "--age", "01:00:00"}); err != nil {
		t.Fatal(err)
	}
	if d != 720*time.Hour || none != time.Hour || n != 5<<30 || b != 1e9 {
		t.Errorf("got %v %v %d %g", d, none, n, b)
	}
}
