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
// measured, in the order of the tables. Whatever is new is told with its own command and date.
func (r results) after(earlier results, ws []workload) results {
	if len(earlier.Rows) == 0 {
		return r
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
	again := fmt.Sprintf("`%s` (%s, commit %s, %s)", r.Command, r.Date, r.Host.Commit, r.Took)
	r.Again = append(slices.Clone(earlier.Again), again)
	r.Command, r.Date, r.Took, r.Host, r.Short, r.Models = earlier.Command, earlier.Date, earlier.Took, earlier.Host, earlier.Short, models
	return r
}

// row is the name of a metric's row.
func (w workload) row(m metric) string { return strings.TrimSpace(w.name + " " + m.name) }
