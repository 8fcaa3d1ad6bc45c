//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

const patience = 10 * time.Minute // for one job

// blocks is how many draws a job has at most: tasks of one family follow each other
// in the job file, and share the host that chance gave them.
const blocks = 200

// jobFile is a job of n tasks that read each a dataset, which lies on a host by
// chance. Without knowledge of that each is bound to a host by chance, too.
func jobFile(size int64, n int, aware bool, r *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job: locality\ntasks:\n")
	each := (n + blocks - 1) / blocks
	for k := 0; k*each < n; k++ {
		last := min(each, n-k*each) - 1
		fmt.Fprintf(&b, "  make_%d: {run: locality_make, for: {i: \"0..%d\"}, with: {size: %d}, out: [part], resources: {at_%c: 1}}\n", k, last, size, 'a'+r.IntN(2))
		at := ""
		if on := 'a' + r.IntN(2); !aware {
			at = fmt.Sprintf(", resources: {at_%c: 1}", on)
		}
		fmt.Fprintf(&b, "  use_%d: {run: locality_use, for: {i: \"0..%d\"}, in: {part: \"make_%d[${i}].part\"}, out: [sum]%s}\n", k, last, k, at)
	}
	return b.String()
}

// measure runs one job.
func measure(c *cascade.Client, o *options, size int64, n int, aware bool) (m measured, err error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	text := jobFile(size, n, aware, rand.New(rand.NewPCG(o.seed, uint64(size))))
	g, err := dag.ParseYAML("locality.yaml", []byte(text), dag.Override{}, dag.Options{})
	if err != nil {
		return m, err
	}
	begun := time.Now()
	j, err := c.Submit(ctx, g)
	if err != nil {
		return m, err
	}
	if _, err := j.Wait(ctx); err != nil {
		return m, err
	}
	m.took = time.Since(begun)
	rows, err := cascade.Rows[comms.TaskRow](ctx, c, comms.QueryTasks, j.ID(), "")
	if err != nil {
		return m, err
	}
	return m.add(rows)
}

// add sums up the tasks of a job.
func (m measured) add(rows []comms.TaskRow) (measured, error) {
	type end struct {
		at    time.Time
		agent string
	}
	made := map[string]end{} // by the name without its kind
	for _, kind := range []string{"make_", "use_"} {
		for i := range rows {
			r := &rows[i]
			if !strings.HasPrefix(r.Name, kind) {
				continue
			}
			began, err := time.Parse(time.RFC3339Nano, r.Started)
			if err != nil {
				return m, fmt.Errorf("start of %s: %w", r.Name, err)
			}
			key := strings.TrimPrefix(r.Name, kind)
			if kind == "make_" {
				made[key] = end{began.Add(time.Duration(r.Seconds * float64(time.Second))), r.Agent}
				continue
			}
			from, ok := made[key]
			if !ok {
				return m, fmt.Errorf("%s has no dataset", r.Name)
			}
			m.wait += began.Sub(from.at)
			if from.agent != r.Agent {
				m.moved++
			}
		}
	}
	if len(made) > 0 {
		m.wait /= time.Duration(len(made))
	}
	return m, nil
}
