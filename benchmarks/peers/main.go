package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, words []string) error {
	flags := flag.NewFlagSet("peers", flag.ExitOnError)
	short := flags.Bool("short", false, "small sizes: minutes; shows that everything works, not how fast")
	rounds := flags.Int("rounds", 3, "how often each system has its turn at each workload; 0 writes the tables and pages of results.json anew")
	budget := flags.Duration("budget", 52*time.Minute, "after which nothing more is measured")
	only := flags.String("systems", "", "these systems only, by name with commas between")
	which := flags.String("workloads", "", "these workloads only, by the beginnings of their names with commas between")
	out := flags.String("out", "benchmarks/peers", "folder of results.json and results.md")
	merge := flags.Bool("merge", false, "keep what results.json has of workloads and systems that are not measured now")
	plots := flags.String("plots", "", "also draw PREFIX-ratios.svg and PREFIX-noops.svg")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "go run ./benchmarks/peers [flags]: Cascade and its neighbours on this machine, in turn")
		flags.PrintDefaults()
	}
	if err := flags.Parse(words); err != nil {
		return err
	}
	if *rounds == 0 {
		earlier, err := readResults(*out)
		if err != nil {
			return err
		}
		return errors.Join(earlier.write(*out), earlier.pictures(*plots))
	}
	cores := runtime.NumCPU()
	played, err := traces(os.Getenv("CASCADE_TEST_DATA"), cores)
	if err != nil {
		return err
	}
	p := plan{workloads: append(workloads(), played...), systems: systems(), short: *short, rounds: *rounds, budget: *budget}
	if *short {
		p.rounds = 1
	}
	if err := p.choose(*only, *which); err != nil {
		return err
	}
	var earlier results
	if *merge {
		if earlier, err = readResults(*out); err != nil {
			return err
		}
	}
	say := func(text string) { fmt.Fprintln(os.Stderr, text) }
	result, err := measure(ctx, p, cores, say)
	if len(result.Rows) == 0 {
		return err
	}
	result.Measured[0].Command = strings.Join(append([]string{"go run ./benchmarks/peers"}, words...), " ")
	result = result.after(earlier, append(workloads(), played...))
	return errors.Join(err, result.write(*out), result.pictures(*plots))
}

// choose keeps the systems and workloads that are wanted.
func (p *plan) choose(names, beginnings string) error {
	if names != "" {
		wanted := strings.Split(names, ",")
		for _, name := range wanted {
			if !slices.ContainsFunc(p.systems, func(s system) bool { return s.name == name }) {
				return fmt.Errorf("there is no system %q", name)
			}
		}
		p.systems = slices.DeleteFunc(p.systems, func(s system) bool { return !slices.Contains(wanted, s.name) })
	}
	if beginnings != "" {
		wanted := strings.Split(beginnings, ",")
		p.workloads = slices.DeleteFunc(p.workloads, func(w workload) bool {
			return !slices.ContainsFunc(wanted, func(b string) bool { return strings.HasPrefix(w.name, b) })
		})
		if len(p.workloads) == 0 {
			return fmt.Errorf("no workload begins with any of %s", beginnings)
		}
	}
	return nil
}

// measure prepares and runs a plan.
func measure(ctx context.Context, p plan, cores int, say func(string)) (res results, err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "peers-programs-")
	if err != nil {
		return res, fmt.Errorf("make a folder for programs: %w", err)
	}
	defer os.RemoveAll(dir)
	at, missing, err := prepare(ctx, dir, cores, p.systems, say)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, at.cache.Close()) }()
	b := &bench{plan: p, place: at, say: say, began: began, versions: map[string]string{}, models: map[string]model{}}
	b.systems = slices.DeleteFunc(b.systems, func(s system) bool {
		why := missing[s.name]
		for _, w := range b.workloads {
			if why != nil && b.args(w) != nil {
				b.record(entry{workload: w.name, system: s.name, err: why.Error()}, 0)
			}
		}
		return why != nil
	})
	stopped := b.run(ctx) // what was measured before is told all the same
	run := measured{Date: began.UTC().Format("2 January 2006"), Took: time.Since(began).Round(time.Second).String(), Commit: at.version}
	return results{Measured: []measured{run}, Host: describe(cores), Short: p.short, Models: b.models, Spent: b.spent,
		Rows: rows(p.workloads, systems(), b.versions, b.happened)}, stopped
}

// root is the clone's folder.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the clone: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(b), "module "+modulePath+"\n") {
			return dir, nil
		}
	}
	return "", errors.New("find the clone: run this command in one")
}
