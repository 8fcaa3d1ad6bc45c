// Package tier names the tier of a test.
//
// Tests come in two tiers. The gate is what `.ci/run` and `go test ./...` run: it
// decides whether a change may land, so it is short, has fixed seeds and no race
// against a clock. The night is all else: long series of kills, schedulers and
// tools that must be installed first, exhaustive rounds. `just nightly` runs both.
//
// A test is of the gate unless it calls Nightly. A test that is of both, with fewer
// rounds in the gate, asks Night for its number of rounds.
package tier

import (
	"os"
	"testing"
)

// Variable is the environment variable that chooses the tier: "nightly" runs all
// tests, everything else the gate's.
const Variable = "CASCADE_TIER"

// Night says whether the tests of the night run.
func Night() bool { return os.Getenv(Variable) == "nightly" }

// Nightly skips a test outside the night. The reason says what the test costs or needs.
func Nightly(t testing.TB, reason string) {
	t.Helper()
	if !Night() {
		t.Skipf("%s: of the nightly tier; %s=nightly runs it", reason, Variable)
	}
}

// Rounds is the number of rounds of a test that is of both tiers.
func Rounds(gate, night int) int {
	if Night() {
		return night
	}
	return gate
}
