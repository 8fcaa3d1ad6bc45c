//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// packagingHosts makes hosts of this machine.
func packagingHosts(t *testing.T, n int) *netlab.Lab {
	t.Helper()
	lab, err := netlab.New(netlab.Config{Hosts: n})
	forbidden := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS)
	if forbidden && os.Getenv("CASCADE_REQUIRE_NETLAB") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// srun stands in for Slurm's: it runs a command once on every node of the job. It
// knows the flags that the script may use, and refuses others.
const srun = `#!/bin/sh
while :; do
  case $1 in
    --overlap | --nodes="$SLURM_NNODES" | --ntasks-per-node=1) shift ;;
    -*) echo "srun: unrecognized option '$1'" >&2; exit 1 ;;
    *) break ;;
  esac
done
i=0
for node in $STAND_IN_NODES; do
  SLURM_NODEID=$i SLURM_PROCID=$i SLURM_NTASKS=$SLURM_NNODES nsenter --target "$node" --mount --uts --net "$@" &
  all="$all $!" i=$((i + 1))
done
code=0
for p in $all; do wait "$p" || code=$?; done
exit $code
`

// slurm is a cluster of two nodes.
type slurm struct {
	*place
	nodes []string // processes whose namespaces they are
}

// node makes one: a name, a network, disks and shared memory of its own.
func (s *slurm) node(name string, host *netlab.Host) {
	s.t.Helper()
	c := exec.Command("unshare", "--mount", "--uts", "sh", "-c",
		`hostname "$0" && mount -t tmpfs tmpfs "$1" && mount -t tmpfs -o size=256m tmpfs /dev/shm && echo ready && exec cat`, name, filepath.Join(s.dir, "tmp"))
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	c.Stderr = os.Stderr
	if err := errors.Join(err1, err2, host.Start(c)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = in.Close(); _ = c.Wait() }) // the lab may have killed it
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		s.t.Fatalf("node %s: %q, %v", name, line, err)
	}
	s.nodes = append(s.nodes, strconv.Itoa(c.Process.Pid))
}

// batch starts the script as Slurm starts a job, and waits until its agents are there.
func (s *slurm) batch(job int) *service {
	s.t.Helper()
	script, err := filepath.Abs("../../packaging/slurm/cascade-agents.sbatch")
	if err != nil {
		s.t.Fatal(err)
	}
	p := *s.place
	p.env = append(slices.Clone(p.env), "PATH="+s.dir+":"+s.hand.bin+":"+os.Getenv("PATH"), "TMPDIR="+filepath.Join(s.dir, "tmp"),
		"CASCADE_HEAD="+s.hand.head, "CASCADE_TOKEN="+s.hand.token, "STAND_IN_NODES="+strings.Join(s.nodes, " "),
		"SLURM_JOB_ID="+strconv.Itoa(job), fmt.Sprintf("SLURM_NNODES=%d", len(s.nodes)), "SLURM_JOB_NODELIST=node[1-2]", "SLURM_CPUS_ON_NODE=2")
	c := exec.Command("bash", script)
	c.Dir, c.Env = p.dir, append(os.Environ(), p.env...)
	d := &service{t: s.t, cmd: c, lines: make(chan string, 1000), end: make(chan error, 1)}
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { d.end <- errors.Join(c.Wait(), w.Close()) }()
	go func() {
		defer close(d.lines)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			select {
			case d.lines <- lines.Text():
			default:
			}
		}
	}()
	s.t.Cleanup(func() { _ = c.Process.Signal(syscall.SIGTERM); <-d.end }) // it may have ended before
	for range s.nodes {
		d.hears("controller is there")
	}
	return d
}

// drained has the time of a job end, as --signal=B:TERM does, and waits for its end.
func (s *slurm) drained(d *service, running func()) {
	s.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	for range s.nodes {
		d.hears("no task starts any more")
	}
	running()
	err := <-d.end
	d.end <- nil
	if err != nil {
		s.t.Fatalf("the script ended with %v", err)
	}
}

// TestSlurmScript runs the script of a Slurm job on two nodes, with a stand-in for
// srun: agents join, tasks run on both, and when the time is over those that run end,
// none begins, and the next such job runs the rest.
func TestSlurmScript(t *testing.T) {
	hand := programs(t)
	lab := packagingHosts(t, 3)
	hand.head = lab.Host(0).Addr().String()
	head := homeOf(t, hand, 0)
	head.host = lab.Host(0)
	s := &slurm{place: homeOf(t, hand, 0)}
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "tmp"), 0o700), os.WriteFile(filepath.Join(s.dir, "srun"), []byte(srun), 0o755),
		unix.Mkfifo(filepath.Join(s.dir, "began"), 0o600), unix.Mkfifo(filepath.Join(s.dir, "gate"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		s.node(fmt.Sprintf("node%d", i+1), lab.Host(i+1))
	}
	// Open for both ways: a pipe that nobody else has open neither ends nor blocks.
	began, err1 := os.OpenFile(filepath.Join(s.dir, "began"), os.O_RDWR, 0)
	gate, err2 := os.OpenFile(filepath.Join(s.dir, "gate"), os.O_RDWR, 0)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer began.Close()

	head.must("cascade cluster init --name hpc --state state")
	head.serves("cascade-controller --state state --listen tcp://10.0.0.1:7420", "tcp://")
	head.must("cascade cluster token --uses 4 --state state")
	first := s.batch(7)
	head.write("job.yaml", fmt.Sprintf("job: slurm\ntasks:\n  t: {for: {i: \"1..6\"}, command: \"echo $(hostname) ${i} > %[1]s/began && cat %[1]s/gate\"}\n", s.dir))
	to := " --to ipc://" + head.dir + "/state/run/controller.sock"
	head.must("cascade submit job.yaml" + to)
	lines := bufio.NewScanner(began)
	hosts, tasks := map[string]int{}, map[string]bool{}
	hear := func(n int) {
		t.Helper()
		for range n {
			if !lines.Scan() {
				t.Fatalf("no task began: %v", lines.Err())
			}
			host, task, _ := strings.Cut(lines.Text(), " ")
			if hosts[host]++; tasks[task] {
				t.Errorf("task %s runs again", task)
			}
			tasks[task] = true
		}
	}
	hear(4)
	if hosts["node1"] != 2 || hosts["node2"] != 2 {
		t.Errorf("tasks began on %v: want two on each node", hosts)
	}
	head.must("cascade ls hosts"+to, "node1-7", "node2-7")
	s.drained(first, func() {
		// Who opens the gate from now on finds it open.
		open := filepath.Join(s.dir, "open")
		if err := errors.Join(os.WriteFile(open, nil, 0o600), os.Rename(open, filepath.Join(s.dir, "gate")), gate.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if len(tasks) != 4 {
		t.Errorf("%d tasks began: want 4", len(tasks))
	}
	second := s.batch(8)
	hear(2)
	head.must("cascade status last --watch"+to, "6")
	head.must("cascade ls hosts"+to, "node1-8", "node2-8")
	s.drained(second, func() {})
}

// Agents have less time to drain than Slurm leaves them, also when it is early by
// the minute that its manual permits.
func TestSlurmTimes(t *testing.T) {
	text, err := os.ReadFile("../../packaging/slurm/cascade-agents.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) time.Duration {
		m := regexp.MustCompile(pattern).FindSubmatch(text)
		if m == nil {
			t.Fatalf("the script has no %s", pattern)
		}
		d, err := time.ParseDuration(string(m[1]) + "s")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if left, drain := find(`(?m)^#SBATCH --signal=B:TERM@(\d+)$`), find(`CASCADE_DRAIN:-(\d+)s`); drain >= left {
		t.Errorf("agents drain for %v, Slurm leaves them %v", drain, left)
	}
}

// unit reads one line of a unit of systemd, with what its variables stand for.
func unit(t *testing.T, name, key string, values *strings.Replacer) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../packaging/systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no %s", name, key)
	}
	return values.Replace(string(m[1]))
}

// TestSystemdUnits has systemd look at the units, and starts daemons as they do.
func TestSystemdUnits(t *testing.T) {
	hand := programs(t)
	t.Run("as systemd reads them", func(t *testing.T) {
		if _, err := exec.LookPath("systemd-analyze"); err != nil {
			t.Skip(err)
		}
		dir := t.TempDir()
		var files []string
		for _, name := range []string{"cascade-agent.service", "cascade-controller.service"} {
			text, err := os.ReadFile(filepath.Join("../../packaging/systemd", name))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("/usr/local/bin"), []byte(hand.bin)), 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "cascade-") {
				t.Error(strings.TrimSpace(line))
			}
		}
		if err != nil && !t.Failed() {
			t.Logf("systemd-analyze: %v\n%s", err, out) // of other units
		}
	})
	lab := packagingHosts(t, 2)
	hand.head = lab.Host(0).Addr().String()
	head, node := homeOf(t, hand, 0), homeOf(t, hand, 0)
	head.host, node.host = lab.Host(0), lab.Host(1)
	head.must("cascade cluster init --state "+head.dir+"/cascade --name hpc", "cluster hpc")
	values := strings.NewReplacer("/usr/local/bin/", "", "/var/lib", head.dir, "${CASCADE_LISTEN}", "tcp://10.0.0.1:7420", "--metrics 9420", "--metrics 0")
	head.serves(unit(t, "cascade-controller.service", "ExecStart", values), "tcp://")
	node.env = append(node.env, "CASCADE_TOKEN="+hand.token)
	values = strings.NewReplacer("/usr/local/bin/", "", "/var/lib", node.dir, "${CASCADE_HEAD}", "10.0.0.1", "--metrics 9421", "--metrics 0")
	d := node.serves(unit(t, "cascade-agent.service", "ExecStart", values), "controller is there")
	// A stop lets tasks end within the time that systemd waits.
	drain := regexp.MustCompile(`--drain (\S+)`).FindStringSubmatch(d.cmd.Args[len(d.cmd.Args)-1])
	stop := unit(t, "cascade-agent.service", "TimeoutStopSec", strings.NewReplacer())
	most, err := time.ParseDuration(stop + "s")
	if len(drain) == 0 || err != nil {
		t.Fatalf("%q, %v", d.cmd.Args, err)
	}
	if grace, err := time.ParseDuration(drain[1]); err != nil || grace >= most {
		t.Errorf("the agent drains for %v, %v, and is killed after %v", grace, err, most)
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-d.end; err != nil {
		t.Errorf("told to end as systemd does, the agent ended with %v", err)
	}
	d.end <- nil
}
