package main

import (
	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
)

// The programs for awk, as in job.yaml.
const (
	awkStep   = `$1 != time {time = $1; n++} n == step + 1`
	awkSpread = `{k = $5 "," $1 "," $2 "," $3; x[k, ++n[k]] = $6; sum[k] += $6}
END {
  for (k in n) {
    mean = sum[k] / n[k]; squares = 0
    for (i = 1; i <= n[k]; i++) squares += (x[k, i] - mean) ^ 2
    printf "%s,%.9f,%.9f\n", k, mean, sqrt(squares / (n[k] - 1))
  }
}
`
	awkGlobe = `{
  k = $4 "," $3 "," $2; area[k] += $9; mean[k] += $9 * $5
  if ($6 > most[k]) {most[k] = $6; band[k] = $1}
}
END {for (k in area) printf "%s,%.2f,%.3f,%s\n", k, mean[k] / area[k], most[k], band[k]}
`
	awkColdest = `$3 == "t" && $1 $2 $5 != seen {seen = $1 $2 $5; print}`
	awkReport  = `FNR == 1 {file++}
file == 1 {
  if (FNR == 1) print "field level time                      mean  spread  largest in"
  split($0, c, ",")
  printf "%-5s %5d %s %9.2f %7.3f  %s\n", c[1], c[2], c[3], c[4], c[5], c[6]
}
file == 2 {n[FNR] = $1; member[FNR] = $2; lines = FNR; total += $1}
END {
  print "\nmember  coldest in"
  for (i = 1; i <= lines; i++) printf "%6d %3d of %d\n", member[i], n[i], total
}
`
)

// inputs are a command's inputs by name.
type inputs = map[string]cascade.Source

// graph builds what job.yaml describes, for data with a number of times.
func graph(steps int) (*dag.Graph, error) {
	g := cascade.NewGraph("text-report")
	locale := cascade.Setenv("LC_ALL", "C")
	step := cascade.Range("step", 0, steps-1)
	each := cascade.Over(step)
	// prints adds a command whose standard output is its one output.
	prints := func(task string, over []cascade.Axis, output string, in inputs, words ...string) cascade.CommandTask {
		return g.Command(task, over, cascade.CommandSpec{Args: words, Inputs: in, Out: []string{output}, Stdout: output}, locale)
	}
	// filter adds a command that also reads its one input from standard input.
	filter := func(task, output, input string, from cascade.Source, words ...string) cascade.Ref[[]byte] {
		return g.Command(task, nil, cascade.CommandSpec{
			Args: words, Inputs: inputs{input: from}, Stdin: input, Out: []string{output}, Stdout: output,
		}, locale).Out(output)
	}

	measured, areas := g.File("measured", "data/members.csv"), g.File("areas", "data/bands.csv")
	rows := prints("rows", nil, "csv", inputs{"table": measured}, "tail", "-n", "+2", "${in.table}").Out("csv")
	bands := prints("bands", nil, "csv", inputs{"table": areas}, "sort", "-t,", "-k1,1", "${in.table}").Out("csv")

	parts := prints("step", each, "csv", inputs{"rows": rows},
		"awk", "-F,", "-v", "step=${step}", awkStep, "${in.rows}").OutFamily("csv")
	spread := prints("spread", each, "csv", inputs{"rows": parts.At(step)},
		"awk", "-F,", awkSpread, "${in.rows}").OutFamily("csv")
	sorted := g.Command("sorted", each, cascade.CommandSpec{
		Args:   []string{"sort", "-t,", "-k1,1", "-o", "${out.csv}", "${in.rows}"},
		Inputs: inputs{"rows": spread.At(step)}, Out: []string{"csv"},
	}, locale).OutFamily("csv")
	joined := prints("joined", each, "csv", inputs{"rows": sorted.At(step), "bands": bands},
		"join", "-t,", "${in.rows}", "${in.bands}").OutFamily("csv")
	globe := prints("globe", each, "csv", inputs{"rows": joined.At(step)},
		"awk", "-F,", awkGlobe, "${in.rows}").OutFamily("csv")
	table := prints("table", nil, "csv", inputs{"steps": globe.All()},
		"sort", "-t,", "-k1,1", "-k2,2n", "-k3,3", "${in.steps[*]}").Out("csv")

	temperatures := prints("temperatures", nil, "csv", inputs{"rows": rows},
		"sort", "-t,", "-k3,3", "-k1,1", "-k2,2n", "-k5,5", "-k6,6n", "-k4,4n", "${in.rows}").Out("csv")
	coldest := prints("coldest", nil, "csv", inputs{"rows": temperatures}, "awk", "-F,", awkColdest, "${in.rows}").Out("csv")
	members := filter("members", "numbers", "rows", coldest, "cut", "-d,", "-f4")
	grouped := filter("grouped", "numbers", "numbers", members, "sort", "-n")
	counted := filter("counted", "counts", "numbers", grouped, "uniq", "-c")
	tally := filter("tally", "counts", "counts", counted, "sort", "-k1,1nr", "-k2,2n")

	report := prints("report", nil, "text", inputs{"table": table, "tally": tally}, "awk", awkReport, "${in.table}", "${in.tally}")
	g.Output(report.Out("text"), "out/report.txt")
	return g.Build()
}
