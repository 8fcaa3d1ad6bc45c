package gcs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A shard's folder opens after a full disk, or a death in between, and no committed record is lost;
// an error names damaged files and the fix.
func TestHalfFiles(t *testing.T) {
	const jobs = 4
	closed, killed := filepath.Join(t.TempDir(), "closed"), filepath.Join(t.TempDir(), "killed")
	o := small(filepath.Join(t.TempDir(), "store"))
	o.Shards, o.memTable = 1, 1<<20
	s, err := Open(o)
	must(t, err)
	for i := range uint64(jobs) {
		create(t, s, jobID(i), []byte(fmt.Sprint("graph", i, strings.Repeat("g", 3000))))
	}
	must(t, os.CopyFS(killed, os.DirFS(o.Dir)))
	must(t, s.Close())
	must(t, os.CopyFS(closed, os.DirFS(o.Dir)))
	const fix = "cascade cluster restore"
	for _, c := range []struct {
		left, file string
		size       int64 // the file is made, or cut to it
		want       string
	}{
		{closed, "00009.mem", 0, ""},
		{killed, "00009.mem", 0, ""},
		{closed, "000009.vlog", 0, ""},
		{killed, "000009.vlog", 0, ""},
		{closed, "000009.vlog", 10, ""},
		{closed, "000009.sst", 0, ""},
		{closed, "000009.sst", 25, ""},
		{closed, "MANIFEST-REWRITE", 0, ""},
		{closed, "MANIFEST-REWRITE", 10, ""},
		{closed, "REWRITE-KEYREGISTRY", 0, ""},
		{closed, "DISCARD", 0, ""},
		{closed, "DISCARD", 10, ""},
		{killed, "LOCK", 0, ""},
		{closed, "000000.vlog", 0, "000000.vlog is empty, and 000001.vlog was written after it: its records are lost"},
		{closed, "000001.sst", 0, "000001.sst is cut off: it has 0 bytes"},
		{closed, "000001.sst", 7, "000001.sst is cut off: it has 7 bytes"},
		{closed, "000001.sst", 700, "000001.sst is cut off: it has 700 bytes"},
		{closed, "MANIFEST", 0, "bad magic"},
		{killed, "MANIFEST", 1, "bad magic"},
		{closed, "KEYREGISTRY", 0, ""},
		{closed, "KEYREGISTRY", 10, ""},
	} {
		t.Run(fmt.Sprintf("%s/%s of %d", filepath.Base(c.left), c.file, c.size), func(t *testing.T) {
			o := o
			o.Dir = filepath.Join(t.TempDir(), "store")
			must(t, os.CopyFS(o.Dir, os.DirFS(c.left)))
			f, err := os.OpenFile(filepath.Join(o.Dir, "shard-000", c.file), os.O_CREATE|os.O_RDWR, 0o600)
			must(t, err)
			must(t, f.Truncate(c.size))
			must(t, f.Close())
			s, err := Open(o)
			if c.want != "" {
				if err == nil {
					must(t, s.Close())
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), fix) {
					t.Errorf("want %q and %q, got %v", c.want, fix, err)
				}
				return
			}
			must(t, err)
			for i := range uint64(jobs) {
				if data, err := s.Load(jobID(i)); err != nil || len(data.Graph) < 3000 {
					t.Errorf("job %d: %d bytes of graph, %v", i, len(data.Graph), err)
				}
			}
			must(t, s.Close())
		})
	}
}
