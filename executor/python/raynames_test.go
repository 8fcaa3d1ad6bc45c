//go:build linux

package python_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// Each of Ray's names in the manual is what its row says: one that is the same, or another, is in the package; one that
// is absent is not, or refuses with a sentence.
func TestRayNames(t *testing.T) {
	pyenv.Python(t)
	text, err := os.ReadFile("../../docs/ray-names.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("`([^`]+)`")
	first := func(cell string) string {
		if m := code.FindStringSubmatch(cell); m != nil {
			return m[1]
		}
		return strings.TrimSpace(cell)
	}
	var rows []string
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "Ray" {
			continue
		}
		state, theirs, ours := strings.TrimSpace(cells[2]), first(cells[1]), first(cells[3])
		counts[state]++
		switch {
		case state == "absent" && ours != "":
			t.Errorf("%s is absent, and is %s", theirs, ours)
		case state == "same" && strings.HasPrefix(theirs, "ray.") && ours != "cascade"+strings.TrimPrefix(theirs, "ray"):
			t.Errorf("%s is the same, and called %s", theirs, ours)
		case state == "same" && ours == "": // a name of neither module
			continue
		case state == "different" && ours == "":
			t.Errorf("%s is different, and nothing is named", theirs)
		}
		rows = append(rows, state+"|"+theirs+"|"+ours)
	}
	if len(counts) != 3 || len(rows) < 60 {
		t.Fatalf("the tables have %d rows: %v", len(rows), counts)
	}
	python, env := interpreter(t, "joblib", "dask")
	if got := prints(t, ".", env, python, append([]string{"testdata/raynames.py"}, rows...)...); got != "" {
		t.Error(got)
	}
}
