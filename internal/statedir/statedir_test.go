//go:build linux

package statedir

import (
	"net"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	if r, err := Get(dir); err != nil || !reflect.DeepEqual(r, Record{}) {
		t.Errorf("without a record: %+v, %v", r, err)
	}
	if err := Put(dir, Sockets("inproc://x,ipc:///run/a.sock,tcp://127.0.0.1:1"), "/dev/shm/x"); err != nil {
		t.Fatal(err)
	}
	r, err := Get(dir)
	if err != nil || !reflect.DeepEqual(r.Sockets, []string{"/run/a.sock"}) || r.Memory != "/dev/shm/x" || r.Start == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
}

// Only the process that is meant is ended: not one that has its number by now.
func TestKill(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, err := startTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	right := Record{PID: cmd.Process.Pid, Start: start, Boot: boot()}
	for name, r := range map[string]Record{
		"another start": {PID: right.PID, Start: start + 1, Boot: right.Boot},
		"another boot":  {PID: right.PID, Start: start, Boot: "x"},
		"nobody":        {},
	} {
		if ended, err := r.Kill(); ended || err != nil {
			t.Errorf("%s: %v, %v", name, ended, err)
		}
	}
	if ended, err := right.Kill(); !ended || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Error(err)
	}
	if ended, err := right.Kill(); ended || err != nil {
		t.Errorf("when it is dead: %v, %v", ended, err)
	}
}

// A socket is not there before its owner begins, and refuses before it listens and after it was killed.
func TestNobodyListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	said := func() error {
		c, err := net.Dial("unix", path)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	if err := said(); !NobodyListens(err) {
		t.Errorf("without a socket: %v", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if err := said(); err != nil || NobodyListens(err) {
		t.Errorf("of one that listens: %v", err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := said(); err == nil || !NobodyListens(err) {
		t.Errorf("of one that was left: %v", err)
	}
}
