package gcs

import (
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// A package is needed by the jobs that name it until the last of them is deleted,
// also over a restart.
func TestPackageReferences(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(small(dir))
	must(t, err)
	a, b := comms.PackageHash(strings.Repeat("0a", 32)), comms.PackageHash(strings.Repeat("0b", 32))
	var ids []comms.JobID
	for i, needs := range [][]comms.Hash{{a}, {a, b}, {a}, nil} {
		id := jobID(uint64(i + 1))
		ids = append(ids, id)
		row := &records.Job{ID: id, GraphHash: comms.Hash("graph"), Packages: needs}
		must(t, wait(func(done func(error)) { s.Create(row, &comms.Submit{Job: id}, []byte{byte(i)}, done) }))
		if got, err := s.Job(id); err != nil || len(got.Packages) != len(needs) {
			t.Errorf("row %v, %v", got.Packages, err)
		}
	}
	check := func(h comms.Hash, most, want int) {
		t.Helper()
		if n, err := s.Needs(h, most); err != nil || n != want {
			t.Errorf("%d jobs need %s, want %d; %v", n, h, want, err)
		}
	}
	check(a, 10, 3)
	check(a, 1, 1)
	check(b, 10, 1)
	must(t, wait(func(done func(error)) { s.Delete(ids[1], done) }))
	check(a, 10, 2)
	check(b, 10, 0)
	must(t, s.Close())
	s = open(t, small(dir))
	check(a, 10, 2)
	must(t, wait(func(done func(error)) { s.Delete(ids[0], done) }))
	must(t, wait(func(done func(error)) { s.Delete(ids[2], done) }))
	check(a, 10, 0)
}
