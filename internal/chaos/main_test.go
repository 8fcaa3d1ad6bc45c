//go:build linux

package chaos

import (
	"os"
	"strconv"
	"testing"

	"github.com/cascade-run/cascade"
)

// The test binary is the executor of the tests' jobs.
func TestMain(m *testing.M) { cascade.RunTests(m) }

// rounds returns how many rounds a test does: few, or all in the long form.
func rounds(few, all int) int {
	if Long() {
		return all
	}
	return few
}

// firstSeed is where seeds start.
func firstSeed(t *testing.T) uint64 {
	text := os.Getenv("CASCADE_CHAOS_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("CASCADE_CHAOS_SEED: %v", err)
	}
	return n
}

func text(lines []Line) string {
	all := ""
	for _, l := range lines {
		all += l.String() + "\n"
	}
	return all
}
