package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// A hint leads to where the job is, and repeats what the job was made of.
func TestHints(t *testing.T) {
	job := comms.JobID{15: 1}
	const (
		id    = "00000000-0000-0000-0000-000000000001"
		taken = "  # results that have not changed are taken over"
		later = "  # runs all tasks; keeps their results from now on"
	)
	for _, c := range []struct {
		environ, args []string
		retained      bool
		anew          string // "" when there is none
		rerun         string
	}{
		{nil, []string{"run", "job.yaml"}, true, "cascade run job.yaml --resume=" + id + taken, "cascade rerun " + id},
		{nil, []string{"run", "my job.yaml", "-p", "name=it's", "--param", "n=3", "--keep", "--resume", "--id", id, "--state", "s"}, true,
			`cascade run 'my job.yaml' --keep --param 'name=it'\''s' --param n=3 --resume=` + id + " --state s" + taken, "cascade rerun " + id + " --state s"},
		{[]string{"CASCADE_TO=here"}, []string{"submit", "job.yaml", "--wait"}, false, "cascade run job.yaml --resume" + later, "cascade rerun " + id},
		{[]string{"CASCADE_TO=here"}, []string{"submit", "job.yaml", "--wait", "--to", "there"}, false, "cascade run job.yaml --resume --to there" + later, "cascade rerun " + id + " --to there"},
		{nil, []string{"run", "job.yaml", "--to", "there:9000", "--insecure-test-network"}, true,
			"cascade run job.yaml --resume=" + id + " --to there:9000 --insecure-test-network" + taken, "cascade rerun " + id + " --to there:9000 --insecure-test-network"},
		{nil, []string{"run", "-"}, true, "", "cascade rerun " + id},
	} {
		a := &app{environ: c.environ}
		root := a.command()
		sub, args, err := root.Find(c.args)
		if err == nil {
			err = sub.ParseFlags(args)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.runAnew(sub, sub.Flags().Arg(0), c.retained)
		anew := ""
		if a.anew != nil {
			anew = a.anew(job)
		}
		if anew != c.anew {
			t.Errorf("%v: anew is %s, want %s", c.args, anew, c.anew)
		}
		if got := a.hint("rerun", id); got != c.rerun {
			t.Errorf("%v: rerun is %s, want %s", c.args, got, c.rerun)
		}
	}
}

// What errors advise leads to where the job is, too.
func TestAdvice(t *testing.T) {
	a, job := &app{state: "s"}, comms.JobID{15: 1}
	const id = "00000000-0000-0000-0000-000000000001"
	for _, c := range []struct {
		err  error
		want string
	}{
		{a.unsaved(job, nil, errors.New("disk full")), "disk full\nthe job is done and 0 outputs copied; its outputs are kept: cascade get " + id +
			" TASK.OUTPUT -o FILE --state s copies one, cascade ls datasets " + id + " --state s lists them"},
		{a.cannotRun(&cascade.Progress{Job: job, Waits: "no host has enough"}), "this host cannot run it: no host has enough (cascade cancel " + id + " --state s ends it)"},
	} {
		if c.err.Error() != c.want {
			t.Errorf("%s, want %s", c.err, c.want)
		}
	}
}

// No command that has a job in it is printed without what hint adds.
func TestCommandsAreHints(t *testing.T) {
	bare := regexp.MustCompile(`cascade [a-z][a-z ]*(%s|" ?\+)`)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range bare.FindAll(b, -1) {
			t.Errorf("%s prints %q itself: hint does it", file, found)
		}
	}
}
