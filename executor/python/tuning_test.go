//go:build linux

package python_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// Searches of cascade.tune: what trainables report, how trials end, own searchers, and a search whose processes are all
// killed, which goes on in a folder that was moved.
func TestTune(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/tuning.golden", prints(t, ".", env, python, "testdata/tuning.py", programs(t), t.TempDir()))
}

// The program of docs/python-tune.md prints what it says.
func TestTuneDocs(t *testing.T) {
	pyenv.Python(t)
	const page = "../../docs/python-tune.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if all := write(t, page, dir); len(all) != 1 {
		t.Fatalf("the page has %v", all)
	}
	_, want, _ := strings.Cut(string(text), "\n```text\n")
	want, _, _ = strings.Cut(want, "```")
	python, env := interpreter(t)
	env = append(env, "PATH="+programs(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if got := prints(t, dir, env, python, "search.py"); got != want {
		t.Errorf("printed\n%swant\n%s", got, want)
	}
}

// Optuna suggests, also when its experiment is resumed.
func TestOptuna(t *testing.T) {
	tier.Nightly(t, "installs optuna")
	pyenv.Python(t)
	python, env := interpreter(t, "optuna")
	same(t, "testdata/optuna.golden", prints(t, ".", env, python, "testdata/optuna_search.py", programs(t), t.TempDir()))
}
