//go:build linux

package chaos

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// The test binary is the executor of the tests' jobs, and the program of their sessions.
func TestMain(m *testing.M) {
	if address := os.Getenv(sessionVar); address != "" {
		cascade.Main()
		os.Exit(sessionProgram(address))
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// Much of a test is waiting for processes that start and end. In the long form
		// nobody disturbs what is measured.
		at := "4"
		if tier.Night() {
			at = "1"
		}
		if err := flag.Set("test.parallel", at); err != nil {
			panic(err) // there is such a flag
		}
	}
	cascade.RunTests(m)
}

// rounds returns how many rounds a test does: few, or all in the long form.
func rounds(few, all int) int { return tier.Rounds(few, all) }

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
