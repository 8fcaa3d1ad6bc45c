//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// programs builds the three programs for everybody on this host.
func programs(t *testing.T) *handbook {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs")
	}
	hand := &handbook{bin: t.TempDir(), head: "127.0.0.1"}
	for dir := hand.bin; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build(t, hand.bin)
	return hand
}

// homeOf is a place of its own on this host, of the user uid; 0: of ours.
func homeOf(t *testing.T, hand *handbook, uid int) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "cascade") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &place{t: t, dir: dir, hand: hand, env: []string{"HOME=" + dir, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_RUNTIME_DIR=", "XDG_CACHE_HOME="}}
	if uid != 0 {
		p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: true}
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(filepath.Join(os.TempDir(), fmt.Sprintf("cascade-%d", uid))) })
	}
	return p
}

// Two users of one host have clusters of their own, neither of which the other
// can reach, and need nobody's leave.
func TestSeveralUsers(t *testing.T) {
	hand := programs(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	anna, ben := homeOf(t, hand, 61001), homeOf(t, hand, 61002)
	for _, p := range []*place{anna, ben} {
		p.write("job.yaml", "job: hi\ntasks:\n  hello: {command: \"id -u\", out: [word], stdout: word}\noutputs: [hello.word]\n")
	}
	anna.serves("cascade-controller", "controller.sock")
	socket := "ipc://" + anna.dir + "/.local/state/cascade/controller/run/controller.sock"
	anna.serves("cascade-agent --store 64MiB --controller "+socket, "controller is there")
	anna.must("cascade submit job.yaml --to " + socket)
	anna.must("cascade status last --watch --to "+socket, "done")
	ben.must("cascade run job.yaml", "done") // beside anna's daemons
	if out := ben.must("cascade get last hello.word"); out != "61002\n" {
		t.Errorf("ben's task ran as %q", out)
	}
	if out := anna.must("cascade get last hello.word --to " + socket); out != "61001\n" {
		t.Errorf("anna's task ran as %q", out)
	}
	if out, err := ben.types("cascade status --to " + socket); err == nil || !strings.Contains(out, "permission denied") {
		t.Errorf("ben reaches anna's controller: %v\n%s", err, out)
	}
	found := 0
	for _, root := range []string{anna.dir + "/.local", "/dev/shm/cascade-61001-*"} {
		paths, err := filepath.Glob(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			err := filepath.WalkDir(path, func(path string, e os.DirEntry, err error) error {
				var info os.FileInfo
				if err == nil {
					info, err = e.Info()
				}
				if os.IsNotExist(err) {
					return nil // was removed meanwhile
				}
				if err == nil && e.IsDir() && info.Mode().Perm()&0o077 != 0 && within(path) {
					t.Errorf("%s has mode %v", path, info.Mode())
				}
				if found++; err == nil && info.Sys().(*syscall.Stat_t).Uid != 61001 {
					t.Errorf("%s belongs to another", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d files were looked at", found)
	}
}

// within tells whether nothing above a folder keeps others out: what is inside a
// folder of mode 0700 is out of their reach.
func within(path string) bool {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o077 == 0 {
			return false
		}
	}
	return true
}

// Certificates renew themselves, an agent's over its link, a person's while a
// program of that person is connected; what they end in the middle of goes on.
func TestCertificatesRenew(t *testing.T) {
	hand := programs(t)
	head, node, person := homeOf(t, hand, 0), homeOf(t, hand, 0), homeOf(t, hand, 0)
	head.must("cascade cluster init --name hpc", "cluster hpc")
	// A third of their life is left for the renewal, and for a command that has read one: seconds, which a busy host may need.
	c := head.serves("cascade-controller --listen tcp://127.0.0.1:0 --certificate-life 9s", "tcp://")
	_, address, _ := strings.Cut(c.said.String(), "tcp://")
	hand.head, _, _ = strings.Cut(strings.TrimSpace(address), ",")
	agents := hand.token
	head.must("cascade cluster user anna --role admin", "anna types")
	person.must("cascade cluster join 10.0.0.1 --name anna --token " + hand.token)
	person.serves("cascade connect ./sockets --to hpc", "controller.sock")
	d := node.serves("cascade-agent --store 64MiB --join 10.0.0.1 --token "+agents, "renewal of the certificate")
	if !strings.Contains(d.said.String(), `"level":"info"`) || strings.Contains(d.said.String(), `"error"`) {
		t.Errorf("the agent says\n%s", &d.said)
	}
	// The second renewal of the agent is later than the end of the first certificates.
	again := d.hears("renewal of the certificate")
	person.must("cascade ls members --to hpc", "agent")
	ends := regexp.MustCompile(`"expires":"([^"]+)"`).FindAllStringSubmatch(d.said.String()+again, -1)
	if len(ends) != 2 || ends[0][1] >= ends[1][1] {
		t.Errorf("the agent's certificates end at %q", ends)
	}
}
