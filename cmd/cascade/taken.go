package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

const (
	takenAfter = time.Second // without a running task it is looked for who has the cores, and again after as long
	takenTasks = 10_000      // of a job are looked at, at the most
)

// taken says which jobs have the cores that this one waits for; "" when some are free, or that
// cannot be found out. A task that itself waits for this job, as one that runs this command, would
// wait for ever.
func (s *progress) taken(ctx context.Context, client *cascade.Client) string {
	if s.cores.asked.IsZero() {
		s.cores.asked = s.start
	}
	if time.Since(s.cores.asked) < takenAfter {
		return s.cores.text
	}
	s.cores.asked, s.cores.text = time.Now(), ""
	agents, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return ""
	}
	jobs, err := cascade.Rows[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, comms.FilterOpen)
	if err != nil {
		return ""
	}
	var all []takers
	for _, row := range jobs {
		id, err := comms.ParseJobID(row.ID)
		if err != nil || id == s.job {
			continue
		}
		g, _, err := client.Graph(ctx, id)
		if err != nil {
			continue // it has ended meanwhile
		}
		tasks, err := cascade.FirstRows[comms.TaskRow](ctx, client, comms.QueryTasks, id, "running", takenTasks)
		if err != nil || len(tasks) == 0 {
			continue
		}
		t := takers{job: row.Name, tasks: len(tasks), cpu: map[string]int64{}}
		for i := range tasks {
			if gi, ok := g.GroupByName(tasks[i].Group); ok {
				t.cpu[tasks[i].Agent] += coresOf(&g.Groups[gi])
			}
		}
		all = append(all, t)
	}
	s.cores.text = takenText(s.graph, agents, all)
	return s.cores.text
}

// coresAsked is what was found out last about the cores.
type coresAsked struct {
	asked time.Time
	text  string
}

// takers are tasks of another job that run.
type takers struct {
	job   string
	tasks int
	cpu   map[string]int64 // thousandths of a core, by agent
}

// coresOf is how many thousandths of a core a task takes.
func coresOf(grp *dag.Group) int64 {
	return grp.Resources.Cores()
}

// takenText says that others have all cores, "" when an agent has enough for some task of the graph.
func takenText(g *dag.Graph, agents []comms.AgentRow, others []takers) string {
	need := int64(0)
	for i := range g.Groups {
		if c := coresOf(&g.Groups[i]); need == 0 || c < need {
			need = c
		}
	}
	cores := 0.0
	for i := range agents {
		free := int64(agents[i].CPU * 1000)
		cores += agents[i].CPU
		for _, t := range others {
			free -= t.cpu[agents[i].Name]
		}
		if free >= need {
			return ""
		}
	}
	if len(agents) == 0 || len(others) == 0 {
		return ""
	}
	slices.SortStableFunc(others, func(a, b takers) int { return b.tasks - a.tasks })
	var names []string
	for i, t := range others {
		if i == 2 && len(others) > 3 {
			names = append(names, fmt.Sprintf("%d more", len(others)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s of job %s", plural(t.tasks, "task"), t.job))
	}
	all := "all " + strconv.FormatFloat(cores, 'g', -1, 64) + " are"
	if cores == 1 {
		all = "the only one is"
	}
	return fmt.Sprintf("waits for a core: %s taken by %s", all, strings.Join(names, ", "))
}
