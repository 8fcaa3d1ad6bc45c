package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readResults reads results.json of a folder; where there is none they are empty.
func readResults(dir string) (r results, err error) {
	path := filepath.Join(dir, "results.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the results before: %w", err)
	}
	return r, nil
}

// after adds what an earlier run has of workloads and systems that this one has not
// measured, in the order of the tables. Each row knows its run.
func (r results) after(earlier results, ws []workload) results {
	if len(earlier.Rows) == 0 {
		return r
	}
	for i := range r.Rows {
		r.Rows[i].Run = len(earlier.Measured)
	}
	for _, old := range earlier.Rows {
		if !slices.ContainsFunc(r.Rows, func(x row) bool { return x.Workload == old.Workload && x.System == old.System }) {
			r.Rows = append(r.Rows, old)
		}
	}
	var names, columns []string
	for _, w := range ws {
		for _, m := range w.metrics {
			names = append(names, w.row(m))
		}
	}
	for _, s := range systems() {
		columns = append(columns, s.name)
	}
	slices.SortStableFunc(r.Rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(slices.Index(names, a.Workload), slices.Index(names, b.Workload)), cmp.Compare(slices.Index(columns, a.System), slices.Index(columns, b.System)))
	})
	models := maps.Clone(r.Models)
	maps.Copy(models, earlier.Models)
	maps.Copy(models, r.Models)
	r.Short, r.Host, r.Models, r.Spent = earlier.Short, earlier.Host, models, earlier.Spent
	r.Measured = slices.Concat(earlier.Measured, r.Measured)
	return r.told()
}

// told keeps the runs that gave any row.
func (r results) told() results {
	var runs []measured
	for i, m := range r.Measured {
		gave := false
		for k := range r.Rows {
			if r.Rows[k].Run == i {
				r.Rows[k].Run, gave = len(runs), true
			}
		}
		if gave {
			runs = append(runs, m)
		}
	}
	r.Measured = runs
	return r
}

// row is the name of a metric's row.
func (w workload) row(m metric) string { return strings.TrimSpace(w.name + " " + m.name) }
