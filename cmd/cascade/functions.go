package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// codeInput begins the name of the first input of a call whose function goes by value. The hash
// of its code follows, and behind another hyphen the number of its bytes.
const codeInput = "cascade_function-"

// sentFunction is a function that went by value, as the records of its calls tell.
type sentFunction struct {
	Name     string   `json:"name"`
	Language string   `json:"language"`
	Hash     string   `json:"hash"`
	Size     uint64   `json:"size"`
	Calls    int      `json:"calls"`  // that have ended
	Agents   []string `json:"agents"` // to which it went
}

// sentFunctions are the functions of a job by name and hash: no record of a call is kept.
type sentFunctions map[[2]string]*sentFunction

// add counts a call, if its function went by value.
func (f sentFunctions) add(row *comms.RecordRow) error {
	e, err := row.CallEvent()
	if err != nil {
		return err
	}
	if len(e.Called.Kind) == 0 { // an older agent tells less
		return nil
	}
	kind, err := comms.ReadCallKind(e.Called.Kind)
	if err != nil {
		return fmt.Errorf("record of called task %s: %w", row.Name, err)
	}
	if len(kind.Inputs) == 0 || !strings.HasPrefix(kind.Inputs[0].Name, codeInput) {
		return nil
	}
	hash, bytes, _ := strings.Cut(strings.TrimPrefix(kind.Inputs[0].Name, codeInput), "-")
	key := [2]string{e.Called.Function, hash}
	one := f[key]
	if one == nil {
		size, err := strconv.ParseUint(cmp.Or(bytes, "0"), 10, 64) // older clients tell no size
		if err != nil {
			return fmt.Errorf("record of called task %s: input %s: the size of the code: %w", row.Name, kind.Inputs[0].Name, err)
		}
		one = &sentFunction{Name: e.Called.Function, Language: "python", Hash: hash, Size: size}
		f[key] = one
	}
	one.Calls++
	host := cmp.Or(e.Called.Host, row.Agent)
	if i, found := slices.BinarySearch(one.Agents, host); !found {
		one.Agents = slices.Insert(one.Agents, i, host)
	}
	return nil
}

// rows are the functions in the order of their names.
func (f sentFunctions) rows() []*sentFunction {
	rows := make([]*sentFunction, 0, len(f))
	for _, one := range f {
		rows = append(rows, one)
	}
	slices.SortFunc(rows, func(a, b *sentFunction) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Hash, b.Hash)) })
	return rows
}

func (a *app) listFunctionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "functions JOB", Short: "List the functions of a job or session that went by value",
		Long: `List the functions without a name at their hosts, such as closures, lambdas and
those of notebooks: their code went with their calls, or once to each host. SIZE
is that of the code. CALLS are those that have ended, and AGENTS the hosts where
they ran. Functions of a cascade.Executor or Pool are not listed.

` + jobHelp,
		Example: "  cascade ls functions last\n  cascade ls functions last --sort -size --limit 10\n  cascade ls functions last --json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJob(c.Context(), args[0], func(client *cascade.Client, j *cascade.Job) error {
				return a.listFunctions(c.Context(), client, j)
			})
		},
	}
}

func (a *app) listFunctions(ctx context.Context, client *cascade.Client, j *cascade.Job) error {
	sent := sentFunctions{}
	for row, err := range cascade.EachRow[comms.RecordRow](ctx, client, comms.QueryRecords, j.ID(), "") {
		if err == nil {
			err = sent.add(row)
		}
		if err != nil {
			return fmt.Errorf("list the functions of job %s: %w", j.ID(), err)
		}
	}
	return tableOf(a, each(sent.rows()), "name", "language", "hash", "size", "calls", "agents")
}
