//go:build linux

package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An MPI program runs as a gang, as examples/mpi tells.
func TestMPI(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"mpicc", "mpirun", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CASCADE_REQUIRE_MPI") != "" {
				t.Fatal(err)
			}
			t.Skipf("no MPI here: %v", err)
		}
	}
	h := New(t)
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(strings.TrimSpace(string(module)), "examples", "mpi")
	for _, name := range []string{"gangrun.py", "job.yaml"} {
		b, err := os.ReadFile(filepath.Join(example, name))
		if err != nil {
			t.Fatal(err)
		}
		h.Write(name, string(b))
	}
	if out, err := exec.Command("mpicc", "-o", filepath.Join(h.Dir, "allreduce"), filepath.Join(example, "allreduce.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Open MPI does not run as root unless told to.
	h.Env = append(h.Env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	h.Controller()
	h.Agent("--cpu", "4")
	got := h.Submit(h.ReadyClient(1), h.Read("job.yaml"), nil).Done()
	for name, said := range got.Data {
		if want := "4 processes, last sum 9990\n"; string(said) != want {
			t.Errorf("%s is %q, want %q", name, said, want)
		}
	}
	if len(got.Data) != 1 {
		t.Errorf("%d outputs: want what member 0 said", len(got.Data))
	}
}
