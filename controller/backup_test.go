package controller

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// A restored store goes on: a job that ran when the backup was taken ends, by
// the agent that lives and knows nothing of the loss.
func TestRestoredStoreGoesOn(t *testing.T) {
	net, dir := comms.NewInproc(), t.TempDir()
	if _, _, err := Found(Founding{State: dir, Name: "ours", Uses: 1, Life: time.Hour}); err != nil {
		t.Fatal(err)
	}
	first := startController(t, dir, net)
	a := dialAgent(t, net, &fakeAgent{name: "a1", hold: true})
	c := dialClient(t, net)
	submit(c, 1, parse(t, job1).Encode())
	expect[*comms.Accepted](c, "accepted", nil)
	expect[*comms.Assign](a.peerEnd, "assignment", nil)
	file := filepath.Join(t.TempDir(), "backup")
	for n, path := range map[uint64]string{20: "relative", 21: filepath.Join(t.TempDir(), "no", "such", "folder"), 22: file} {
		c.say(&comms.Backup{Req: n, File: path})
		r := expect(c, "answer", func(r *comms.Reply) bool { return r.Req == n })
		if (r.Code == comms.CodeOK) != (path == file) {
			t.Errorf("backup to %s: %+v", path, r)
		}
	}
	submit(c, 2, parse(t, job1).Encode()) // is lost
	expect[*comms.Accepted](c, "accepted", nil)
	a.close()
	c.close()
	first.stop(t)

	if err := Restore(dir, file); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a restore over what is there: %v", err)
	}
	again := filepath.Join(t.TempDir(), "state")
	if err := Restore(again, file); err != nil {
		t.Fatal(err)
	}
	second := startController(t, again, net)
	if n := len(second.cluster.members.Tokens()); n != 1 {
		t.Errorf("%d tokens", n)
	}
	b := dialAgent(t, net, &fakeAgent{name: "a1"})
	defer b.close()
	c = dialClient(t, net)
	defer c.close()
	c.say(&comms.Watch{Req: 5, Job: testJob(1)})
	if p := final(c); p.Phase != comms.JobDone {
		t.Errorf("final %+v", p)
	}
	if jobs := rows[comms.JobRow](c, comms.Query{Kind: comms.QueryJobs}, 10); len(jobs) != 1 {
		t.Errorf("jobs %+v", jobs)
	}
}

// Without a running controller the folder itself is backed up.
func TestBackupOfAFolder(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	if _, _, err := Found(Founding{State: dir, Name: "ours", Uses: 1, Life: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Found(Founding{State: dir, Name: "ours", Uses: 1, Life: time.Hour}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second authority: %v", err)
	}
	if err := Backup(dir, filepath.Join(t.TempDir(), "nowhere", "backup")); codeOf(err) != comms.CodeBadRequest || !strings.Contains(err.Error(), "name a file in a folder that exists on the controller's host") {
		t.Errorf("a backup in no folder: %v", err)
	}
	if err := Backup(dir, file); err != nil {
		t.Fatal(err)
	}
	if err := Restore(filepath.Join(t.TempDir(), "s"), filepath.Join(dir, "pki", "ca.crt")); err == nil {
		t.Error("a certificate was restored as a backup")
	}
	if err := Restore(filepath.Join(t.TempDir(), "s"), file); err != nil {
		t.Error(err)
	}
}
