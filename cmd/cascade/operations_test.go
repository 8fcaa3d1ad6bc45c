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
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/testing/netlab"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// place is where somebody types: a host, and a home of his or her own.
type place struct {
	t    *testing.T
	host *netlab.Host // nil: this one
	dir  string
	env  []string
	cred *syscall.Credential // nil: ours
	hand *handbook
}

// write makes a file where somebody types.
func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// build builds the three programs.
func build(t *testing.T, bin string) {
	t.Helper()
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "../cascade", "../cascade-controller", "../cascade-agent").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// handbook is what the document's examples stand for.
type handbook struct {
	bin, head string
	token     string // printed last
}

func (p *place) command(line string) *exec.Cmd {
	p.t.Helper()
	line, _, _ = strings.Cut(line, " #")
	line = strings.NewReplacer("10.0.0.1", p.hand.head, "cascade1.…", p.hand.token).Replace(line)
	p.t.Logf("$ %s", strings.TrimSpace(line))
	c := exec.Command("sh", "-c", "exec "+line)
	c.Dir = p.dir
	c.Env = append(append(os.Environ(), p.env...), "PATH="+p.hand.bin+":"+os.Getenv("PATH"))
	return c
}

func (p *place) start(c *exec.Cmd) {
	p.t.Helper()
	var err error
	if p.cred != nil {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred}
	}
	if p.host != nil {
		err = p.host.Start(c)
	} else {
		err = c.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

var aToken = regexp.MustCompile(`cascade1\.[\w-]{70,}`)

// types runs a line to its end and returns what it said.
func (p *place) types(line string) (string, error) {
	p.t.Helper()
	c := p.command(line)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	p.start(c)
	err := c.Wait()
	if t := aToken.FindString(out.String()); t != "" {
		p.hand.token = t
	}
	return out.String(), err
}

func (p *place) must(line string, want ...string) string {
	p.t.Helper()
	out, err := p.types(line)
	for _, w := range want {
		if !strings.Contains(out, w) {
			err = errors.Join(err, fmt.Errorf("want %q", w))
		}
	}
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// service is a process that runs until it is told to end.
type service struct {
	t     *testing.T
	cmd   *exec.Cmd
	said  bytes.Buffer // until it was ready
	lines chan string  // since; those that nobody reads are dropped
	end   chan error
}

// hears waits for a line that a service says from now on.
func (d *service) hears(want string) string {
	d.t.Helper()
	for line := range d.lines {
		if strings.Contains(line, want) {
			return line
		}
	}
	d.t.Fatalf("it has ended and not said %q", want)
	return ""
}

// serves starts a service that says ready, on standard output or error.
func (p *place) serves(line, ready string) *service {
	p.t.Helper()
	d := &service{t: p.t, cmd: p.command(line), lines: make(chan string, 100), end: make(chan error, 1)}
	r, w := io.Pipe()
	d.cmd.Stdout, d.cmd.Stderr = w, w
	p.start(d.cmd)
	go func() {
		d.end <- errors.Join(d.cmd.Wait(), w.Close())
	}()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fmt.Fprintln(&d.said, lines.Text())
		if strings.Contains(lines.Text(), ready) {
			go func() {
				defer close(d.lines)
				for lines.Scan() {
					select {
					case d.lines <- lines.Text():
					default:
					}
				}
			}()
			p.t.Cleanup(func() { _ = d.cmd.Process.Signal(syscall.SIGTERM); <-d.end; d.end <- nil }) // it may have ended before
			return d
		}
	}
	p.t.Fatalf("%s ended: %v\n%s", line, <-d.end, &d.said)
	return nil
}

// document returns the shell examples of a section, a list of lines each.
func document(t *testing.T, file, from, to string) (blocks [][]string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), from)
	text, _, ok2 := strings.Cut(text, to)
	if !ok || !ok2 {
		t.Fatalf("%s has no part from %q to %q", file, from, to)
	}
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, strings.Split(strings.TrimSpace(m[1]), "\n"))
	}
	return blocks
}

// TestOperationsDocument types what docs/operations.md says of a cluster, on three
// hosts where this machine can make them, else on one.
func TestOperationsDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs and starts a cluster")
	}
	hand := &handbook{bin: t.TempDir(), head: "127.0.0.1"}
	build(t, hand.bin)
	lab, err := netlab.New(netlab.Config{Hosts: 3})
	forbidden := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, netlab.ErrNoDelay)
	if err != nil && !forbidden {
		t.Fatal(err)
	}
	home := func(i int) *place {
		dir, err := os.MkdirTemp("", "cascade") // a socket's path must be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		p := &place{t: t, dir: dir, hand: hand, env: []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir + "/state", "XDG_CONFIG_HOME=" + dir + "/config",
			"XDG_RUNTIME_DIR=" + dir + "/run", "XDG_CACHE_HOME=" + dir + "/cache"}}
		if lab != nil {
			p.host = lab.Host(i)
		}
		return p
	}
	if lab != nil {
		t.Cleanup(func() {
			if err := lab.Close(); err != nil {
				t.Error(err)
			}
		})
		hand.head = lab.Host(0).Addr().String()
	}
	head, node, person := home(0), home(1), home(2)
	blocks := document(t, "../../docs/operations.md", "## Set up a cluster", "## Add a host")
	if len(blocks) != 4 || len(blocks[0]) != 3 || len(blocks[1]) != 1 || len(blocks[2]) != 1 || len(blocks[3]) != 4 {
		t.Fatalf("the document has the examples %q", blocks)
	}
	if out, err := head.types(blocks[0][0]); err != nil && !strings.Contains(out, "fail ") || !strings.Contains(out, "shared memory") {
		t.Errorf("%s: %v\n%s", blocks[0][0], err, out)
	}
	head.must(blocks[0][1], "cluster hpc")
	controller := head.serves(blocks[0][2], "tcp://")
	agent := node.serves(blocks[1][0]+" --store 64MiB --metrics 0", "controller is there")
	head.must(blocks[2][0], "anna types:  cascade cluster join")
	person.must(blocks[3][0], "anna is a member of cluster hpc")
	person.write("job.yaml", "job: hi\ntasks:\n  hello:\n    command: head -c 300000 /dev/zero | tr '\\0' x\n    out: [word]\n    stdout: word\noutputs: [hello.word]\n")
	for _, line := range blocks[3][1:3] {
		person.must(line)
	}
	if out := person.must(blocks[3][3]); len(out) != 300_000 {
		t.Errorf("the result has %d bytes", len(out))
	}
	// An address, which is the one that was joined, does as well as the name.
	person.must("cascade ls hosts --to 10.0.0.1", "ready")
	if out, err := person.types("cascade ls members --to hpc"); err == nil || !strings.Contains(out, "needs the role admin") {
		t.Errorf("a submitter lists members: %v\n%s", err, out)
	}
	testGateway(t, person)
	testBackup(t, head)
	testColumns(t, head)
	agent = testDrain(t, head, node, agent)
	testRenewal(t, head, person)

	// The agent is revoked: it ends, and says why.
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	head.must("cascade ls members", name, "connected", "anna")
	head.must("cascade rm members "+name+" --yes", "is revoked")
	var ended *exec.ExitError
	if err := <-agent.end; !errors.As(err, &ended) || ended.ExitCode() != exitInfrastructure {
		t.Errorf("a revoked agent ended with %v", err)
	}
	agent.end <- nil
	if out, err := node.types("cascade-agent --join 10.0.0.1"); err == nil || !strings.Contains(out, "our certificate is not accepted: it was revoked") {
		t.Errorf("the agent starts again: %v\n%s", err, out)
	}
	head.must("cascade cluster token --name "+name, "It admits 1 host until")
	agent = node.serves(blocks[1][0]+" --store 64MiB", "controller is there")
	testAuthority(t, head, controller, agent)
	node.serves(blocks[1][0]+" --store 64MiB", "controller is there")
}

// testColumns compares the columns of the document with those of the command.
func testColumns(t *testing.T, head *place) {
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	heading, _, _ := strings.Cut(head.must("cascade ls hosts --to hpc"), "\n")
	all := regexp.MustCompile(`(?m)^NAME +STATE +CPU.*$`).FindAllString(string(b), -1)
	for _, shown := range all {
		if strings.Join(strings.Fields(shown), " ") != strings.Join(strings.Fields(heading), " ") {
			t.Errorf("the document shows %q, the command %q", shown, heading)
		}
	}
	if len(all) == 0 {
		t.Error("the document shows no hosts")
	}
}

// testDrain has the agent's host leave, and starts its agent again.
func testDrain(t *testing.T, head, node *place, agent *service) *service {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	lines := document(t, "../../docs/operations.md", "## Drain and remove a host", "## Lose a host")[0]
	head.must(strings.ReplaceAll(lines[0], "node7", name), "host "+name+" leaves: cascade ls hosts tells when it is gone")
	if err := <-agent.end; err != nil {
		t.Errorf("a drained agent ended with %v", err)
	}
	agent.end <- nil
	head.must(lines[1], "left")
	if out, err := head.types("cascade cluster drain nosuch"); err == nil || !strings.Contains(out, "cascade ls hosts lists the hosts") {
		t.Errorf("a host that is not there is drained: %v\n%s", err, out)
	}
	if out, err := head.types("cascade rm members nosuch --yes"); err == nil || !strings.Contains(out, "hint: cascade ls members and cascade ls tokens list them") {
		t.Errorf("a member that is not there is revoked: %v\n%s", err, out)
	}
	return node.serves("cascade-agent --join 10.0.0.1 --store 64MiB", "controller is there")
}

// testRenewal replaces a person's certificate and revokes the old one.
func testRenewal(t *testing.T, head, person *place) {
	lines := document(t, "../../docs/operations.md", "## Rotate certificates", "## Stop a cluster")[0]
	if out, err := head.types(lines[0]); err == nil || !strings.Contains(out, "the controller's user on the controller's host and needs none") {
		t.Errorf("who has no certificate renews it: %v\n%s", err, out)
	}
	old := regexp.MustCompile(`(?m)^anna .* (\w+)$`).FindStringSubmatch(head.must(lines[1]))
	person.must(lines[0])
	if len(old) != 2 {
		t.Fatalf("%s lists no anna", lines[1])
	}
	head.must(strings.Replace(lines[2], "SERIAL", old[1]+" --yes", 1), "certificate or token "+old[1]+" is revoked")
	person.must("cascade status --to hpc")
}

// testAuthority replaces the authority of a cluster that is stopped.
func testAuthority(t *testing.T, head *place, controller, agent *service) {
	for _, d := range []*service{agent, controller} {
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := <-d.end; err != nil {
			t.Errorf("stopped: %v", err)
		}
		d.end <- nil
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	lines := document(t, "../../docs/operations.md", "The certificate of the authority", "## Stop a cluster")[0]
	head.must(strings.Replace(lines[0], "~/.local/state", head.dir+"/state", 1))
	head.must(lines[1], "cluster hpc")
	head.serves(lines[2], "tcp://")
	head.must("cascade ls jobs --to hpc", "hi")
	for _, member := range []string{name, "anna --role submit"} {
		head.must(strings.Replace(lines[3], "node7", member+" --yes", 1), "is revoked")
	}
}

// testGateway fetches through the sockets of cascade connect, with no certificate.
func testGateway(t *testing.T, person *place) {
	line := document(t, "../../docs/operations.md", "### Connect plain ZeroMQ programs", "## Drain")[0][0]
	person.serves(line, "sockets/controller.sock")
	plain := *person
	plain.env = append(plain.env, "XDG_CONFIG_HOME="+person.dir+"/nobody")
	if out := plain.must("cascade get last hello.word --to ipc://" + person.dir + "/sockets/controller.sock"); len(out) != 300_000 {
		t.Errorf("through the gateway the result has %d bytes", len(out))
	}
	t.Run("by the client in Python", func(t *testing.T) {
		pyenv.Python(t)
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache := runtimeenv.New(filepath.Join(dir, "cascade-test")) // that of needs: this is there
		defer cache.Close()
		python, err := cache.Prepare(t.Context(), dag.Environment{Python: &dag.Python{}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		plain.env = append(plain.env, python.Env...)
		plain.write("through.py", `import cascade
with cascade.connect("sockets") as cluster:
    word = cluster.job(cluster.jobs()[0]["id"]).result("hello.word")
    with cascade.Graph("back") as g:
        size = g.command("printf %s $(wc -c < ${in.word}) > ${out.n}", word=g.command("head -c 400000 /dev/zero > ${out.word}", out=["word"]), out=["n"])
    print(len(word), bytes(cluster.run(g, size)))
`)
		plain.must(python.Command[0]+" through.py", "300000 b'400000'")
	})
}

func testBackup(t *testing.T, head *place) {
	lines := document(t, "../../docs/operations.md", "## Back up and restore", "## Upgrade")[0]
	at := strings.NewReplacer("/backup/cascade", head.dir+"/backup", "/var/lib/cascade-2", head.dir+"/again")
	head.must(at.Replace(lines[0]), "backup: ")
	head.must(at.Replace(lines[1]), "is ready")
	if out, err := head.types(at.Replace(lines[1])); err == nil || !strings.Contains(out, "already") {
		t.Errorf("a second restore: %v\n%s", err, out)
	}
	info, err := os.Stat(head.dir + "/backup")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v", info, err)
	}
}
