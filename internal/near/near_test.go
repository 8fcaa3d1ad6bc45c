package near_test

import (
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/near"
)

func TestName(t *testing.T) {
	known := []string{"asha", "fifo", "median", "memory", "memory-max"}
	for word, want := range map[string]string{
		"median": "median", "mediann": "median", "meidan": "median", "edian": "median", "medians": "median",
		"memori": "memory", "memorymax": "memory-max", "fif": "fifo", "fiof": "fifo",
		"": "", "x": "", "ab": "", "hyperband": "", "mem": "", strings.Repeat("m", 300): "",
	} {
		if got := near.Name(word, known); got != want {
			t.Errorf("%q is near %q, want %q", word, got, want)
		}
	}
	if got := near.Name("alpha", nil); got != "" {
		t.Errorf("of no names %q is near", got)
	}
}
