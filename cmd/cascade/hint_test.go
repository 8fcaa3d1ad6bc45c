package main

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// A hint leads to where the job is, and repeats what the job was made of.
func TestHints(t *testing.T) {
	job := comms.JobID{15: 1}
	const (
		id    = "00000000-0000-0000-0000-000000000001"
		taken = "  # results that have not changed are taken over"
		later = "  # all of it; results are kept, and the next --resume takes them over"
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
