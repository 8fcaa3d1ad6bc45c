//go:build linux

package python_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/pyenv"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// A program makes actors of its classes: what they return, raise and refuse, in which order and beside what they run
// is the golden file.
func TestPythonActors(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/actors.golden", prints(t, "testdata", env, python, "actors.py", programs(t), t.TempDir()))
}

// An actor whose process dies is restarted as its options say: its state, open calls, a poison, a series, its last handle, and
// thousands of calls over five deaths are the golden file.
func TestPythonActorRestarts(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/restarts.golden", prints(t, "testdata", env, python, "restarts.py", programs(t), t.TempDir()))
}

// Two deaths of an actor's process, the second before the actor is made again: what the next processes get is the golden file.
func TestPythonActorTwoDeaths(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/twodeaths.golden", prints(t, "testdata", env, python, "twodeaths.py"))
}

// The helper of an actor's process takes calls, and the end, at each moment at which the main thread is about to wait. Behind a kill
// no call runs.
func TestActorNaps(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	const want = "3060 orders end with 11\n2300 orders end with 0 5 6\n"
	if out := prints(t, "testdata", env, python, "naps.py"); out != want {
		t.Errorf("printed %s, want %s", out, want)
	}
}

// The process of an actor of which several have handles: what they are answered when one comes before its maker, leaves, breaks off
// or kills it, and the step at which it ends, are the golden file.
func TestActorSharing(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/sharing.golden", prints(t, "testdata", env, python, "sharing.py"))
}

// An actor ends when its process dies, when it is killed, with its last handle, its caller, the program and the agent; each
// says so to all calls that have not ended. A method that never returns, and 10,000 calls behind others, hold nothing.
func TestPythonActorsEnd(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/actorends.golden", prints(t, "testdata", env, python, "actorends.py", programs(t), t.TempDir()))
}

// Handles of actors go to tasks as arguments, within values and as results: the calls of those that find one, what ends the
// actor, what is refused, and that nothing is left are the golden file.
func TestPythonActorHandles(t *testing.T) {
	pyenv.Python(t)
	dir := programs(t)
	python, env := interpreter(t)
	same(t, "testdata/handles.golden", prints(t, "testdata", env, python, "handles.py", dir, t.TempDir()))
}

// Handles of actors go between two hosts, each of which calls the actors of the other, by way of the agents: many calls beside each
// other, large ones, a series, kills from afar, and the death of a host are the golden file.
func TestPythonActorHandlesFar(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	same(t, "testdata/farhandles.golden", prints(t, "testdata", env, python, "farhandles.py", programs(t), t.TempDir()))
}

// The example of actors prints what its README says.
func TestRollouts(t *testing.T) {
	pyenv.Python(t)
	text, err := os.ReadFile("../../examples/rollouts/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(text), "```text\n")
	want, _, _ = strings.Cut(want, "```")
	python, env := interpreter(t)
	env = append(env, "PATH="+programs(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out := prints(t, "../../examples/rollouts", env, python, "rollouts.py"); out != want {
		t.Errorf("printed\n%swant\n%s", out, want)
	}
}

// Its simulators can be those of gymnasium.
func TestGymnasium(t *testing.T) {
	tier.Nightly(t, "installs gymnasium")
	pyenv.Python(t)
	python, env := interpreter(t, "gymnasium")
	same(t, "testdata/gymnasium.golden", prints(t, "testdata", env, python, "gymnasium_actors.py", programs(t)))
}

// The programs of docs/python-actors.md print what it says.
func TestActorDocs(t *testing.T) {
	pyenv.Python(t)
	const page = "../../docs/python-actors.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	names := write(t, page, dir)
	said := strings.Split(string(text), "\n```text\n")[1:]
	if len(names) != 4 || len(said) != len(names) {
		t.Fatalf("the page has %v, and says %d times what they print", names, len(said))
	}
	python, env := interpreter(t)
	env = append(env, "PATH="+programs(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	for i, name := range names {
		want, _, _ := strings.Cut(said[i], "```")
		if out := prints(t, dir, env, python, name); out != want {
			t.Errorf("%s printed\n%swant\n%s", name, out, want)
		}
	}
}
