//go:build linux

package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/tier"
)

// needsMPI skips a test outside the night, or where Open MPI is not installed.
func needsMPI(t *testing.T) {
	t.Helper()
	tier.Nightly(t, "needs Open MPI")
	for _, program := range []string{"mpicc", "mpirun", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CASCADE_REQUIRE_MPI") != "" {
				t.Fatal(err)
			}
			t.Skipf("no MPI here: %v", err)
		}
	}
}

// putMPI writes examples/mpi into the folder of a host's jobs, the program compiled.
// env is what else its agents' processes find in their environment.
func putMPI(t *testing.T, h *Host, env ...string) {
	t.Helper()
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
	h.Env = append(h.Env, env...)
}

// checkMPI compares what member 0 has printed.
func checkMPI(t *testing.T, got Outcome) {
	t.Helper()
	for name, said := range got.Data {
		if want := "4 processes, last sum 9990\n"; string(said) != want {
			t.Errorf("%s is %q, want %q", name, said, want)
		}
	}
	if len(got.Data) != 1 {
		t.Errorf("%d outputs: want what member 0 said", len(got.Data))
	}
}

// An MPI program runs as a gang, as examples/mpi tells.
func TestMPI(t *testing.T) {
	t.Parallel()
	needsMPI(t)
	h := New(t)
	putMPI(t, h)
	h.Controller()
	h.Agent("--cpu", "4")
	checkMPI(t, h.Submit(h.ReadyClient(1), h.Read("job.yaml"), nil).Done())
}

// The same on two hosts, of which none has room for it.
func TestMPIOverHosts(t *testing.T) {
	needsMPI(t)
	h, start := ringHosts(t, 2, 2)
	// Its processes of this one machine are to use the network, as those of two would.
	putMPI(t, h, "OMPI_MCA_btl=tcp,self")
	start(0)
	start(1)
	got := h.Submit(h.ReadyClient(2), h.Read("job.yaml"), nil).Done()
	checkMPI(t, got)
	on := map[string]int{}
	for _, row := range got.Tasks {
		on[row.Agent]++
	}
	if len(on) != 2 {
		t.Errorf("members ran on %v: want two agents", on)
	}
}
