package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

// rooted is a shell in a root of its own, which sees the folder shown of the host.
func rooted(t *testing.T, script string) (c Command, shown string) {
	t.Helper()
	dir, shown := smallfs.Programs(t, "sh", "cat", "ls", "sleep", "stat"), t.TempDir()
	for name, text := range map[string]string{"mark": "of the image\n", "etc/hosts": "", "data/old": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/nowhere", filepath.Join(dir, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	c = Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/bin"}, Dir: shown,
		Root: &Root{Dir: dir, Work: t.TempDir(), Binds: []string{"/proc", shown + "/", shown, filepath.Join(shown, "below")}}}
	return c, shown
}

// start starts it, or skips the test where namespaces are not permitted.
func (c Command) startRooted(t *testing.T) *Process {
	t.Helper()
	p, err := Start(c)
	if err != nil && os.Geteuid() != 0 {
		t.Skip("no namespaces here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A program sees the root's files, and of the host what is shown; what it writes
// elsewhere is nowhere. It is the process that was started.
func TestRoot(t *testing.T) {
	c, shown := rooted(t, `cat /mark; ls -A /; read pid rest < /proc/self/stat; echo $$; echo hello > out; echo lost > /data/old; ls / > /lost; cat /data/old`)
	if err := os.Mkdir(filepath.Join(shown, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(c.Root.Dir)
	if err != nil {
		t.Fatal(err)
	}
	p := c.startRooted(t)
	exit := p.Wait()
	lines := strings.Split(string(exit.Output), "\n")
	if exit.String() != "ended with status 0" || lines[0] != "of the image" || !strings.Contains(string(exit.Output), strconv.Itoa(p.PID())+"\n") ||
		strings.Contains(string(exit.Output), "cascade-host") || !strings.HasSuffix(string(exit.Output), "lost\n") {
		t.Errorf("%s, process %d wrote\n%s", exit, p.PID(), exit.Output)
	}
	if text, err := os.ReadFile(filepath.Join(shown, "out")); err != nil || string(text) != "hello\n" {
		t.Errorf("what is shown has %q, %v", text, err)
	}
	after, err := os.ReadDir(c.Root.Dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("the image has %v, %v, it had %v", after, err, before)
	}
	if left, err := os.ReadDir(c.Root.Work); err != nil || len(left) != 0 {
		t.Errorf("mounts are seen outside: %v, %v", left, err)
	}
}

// A program without a path is the root's own.
func TestRootFindsPrograms(t *testing.T) {
	c, shown := rooted(t, "echo $0")
	if err := os.Mkdir(filepath.Join(shown, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(c.Root.Dir, "own")
	if err := errors.Join(os.Mkdir(own, 0o755), os.Rename(filepath.Join(c.Root.Dir, "bin", "sh"), filepath.Join(own, "oursh"))); err != nil {
		t.Fatal(err)
	}
	c.Path, c.Env = "oursh", []string{"PATH=/bin:/own"}
	if exit := c.startRooted(t).Wait(); string(exit.Output) != "/own/oursh\n" {
		t.Errorf("%s: %s", exit, exit.Output)
	}
}

// What a program writes into its root is bounded, in bytes and files.
func TestRootIsBounded(t *testing.T) {
	c, shown := rooted(t, `read blocks size files <<END
$(stat -f -c '%b %S %c' /)
END
echo $((blocks * size)) $files`)
	if err := os.Mkdir(filepath.Join(shown, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	exit := c.startRooted(t).Wait()
	if want := fmt.Sprintln(writtenBytes, writtenFiles); string(exit.Output) != want {
		t.Errorf("%s, it may write %s, want %s", exit, exit.Output, want)
	}
}

// Who is not root gets a user namespace too, where the kernel permits it.
func TestRootOfAnyUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("TestRoot is that")
	}
	const nobody = 65534
	dir := t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program, temp := filepath.Join(dir, "process.test"), filepath.Join(dir, "tmp")
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.WriteFile(program, self, 0o755), os.Mkdir(temp, 0o700), os.Chown(temp, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestRoot", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP: TestRoot ") {
		t.Skip(string(out))
	}
}

func TestRootFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *Command)
		want   string
	}{
		{"no such program", func(c *Command) { c.Path = "/bin/none" }, "start /bin/none in the root"},
		{"a program without its C library", func(c *Command) {
			if err := os.Remove(filepath.Join(c.Root.Dir, loaderOf("/bin/sh"))); err != nil {
				t.Fatal(err)
			}
		}, "it is linked to a C library that is not there (" + loaderOf("/bin/sh") + "): built with CGO_ENABLED=0"},
		{"no such name", func(c *Command) { c.Path = "none" }, `find the program in the root`},
		{"what is shown is not there", func(c *Command) { c.Root.Binds = append(c.Root.Binds, "/no/such") }, "show /no/such"},
		{"the working folder is not shown", func(c *Command) { c.Dir = t.TempDir() }, "use the working folder"},
		{"no files", func(c *Command) { c.Root.Dir = "/no/image" }, "mount its files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command, shown := rooted(t, "true")
			if err := os.Mkdir(filepath.Join(shown, "below"), 0o700); err != nil {
				t.Fatal(err)
			}
			c.change(&command)
			exit := command.startRooted(t).Wait()
			if exit.String() != "ended with status 1" || !strings.Contains(string(exit.Output), c.want) {
				t.Errorf("%s: %s", exit, exit.Output)
			}
		})
	}
}

// Killing it ends all that runs in the root, as without one.
func TestRootKilled(t *testing.T) {
	c, _ := rooted(t, "sleep 1000 & sleep 1000 & wait")
	c.Root.Binds = []string{"/proc", "/dev", c.Dir} // what sh starts with & reads /dev/null
	p := c.startRooted(t)
	p.Kill()
	if exit := p.Wait(); exit.Signal() != "SIGKILL" {
		t.Errorf("it %s: %s", exit, exit.Output)
	}
}
