package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// results are all that a run gives: the content of results.json.
type results struct {
	Measured []measured       `json:"measured"` // the runs that gave the rows, the first before what replaced some of its rows
	Short    bool             `json:"short,omitempty"`
	Host     host             `json:"host"`
	Models   map[string]model `json:"models"`
	Spent    []spent          `json:"spent,omitempty"` // of the first run
	Rows     []row            `json:"rows"`
}

// measured is one run of this command.
type measured struct {
	Command string `json:"command"`
	Date    string `json:"date"`
	Took    string `json:"took"`
	Commit  string `json:"commit"`
}

// host is the machine.
type host struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
}

// describe reads what the machine is; what cannot be read stays empty.
func describe(cores int) host {
	h := host{Cores: cores}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); h.CPU == "" && lines.Scan(); {
			if name, text, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
				h.CPU = strings.TrimSpace(text)
			}
		}
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kib); err == nil {
			h.Memory = fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = "Linux " + strings.TrimSpace(string(b))
	}
	return h
}

// write puts results.json and results.md into a folder.
func (r results) write(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	var page strings.Builder
	page.WriteString("# Results\n\n")
	r.about(&page)
	if lines := r.behind(); len(lines) > 0 {
		page.WriteString("Where another is ahead:\n\n- " + strings.Join(lines, ".\n- ") + ".\n\n")
	}
	r.tables(&page)
	return errors.Join(os.WriteFile(filepath.Join(dir, "results.json"), append(b, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "results.md"), []byte(page.String()), 0o644))
}

// about says where and how it was measured.
func (r results) about(w io.Writer) {
	size := ""
	if r.Short {
		size = " These are the small sizes of `-short`: they show that everything runs, not how fast."
	}
	fmt.Fprintf(w, "%s, %d cores, %s, %s.%s\n\n", r.Host.CPU, r.Host.Cores, r.Host.Memory, r.Host.Kernel, size)
	for i, m := range r.Measured {
		begins := "Measured by"
		if i > 0 {
			begins = fmt.Sprintf("%s measured again by", r.runRows(i))
		}
		fmt.Fprintf(w, "%s `%s`: %s, commit %s, %s.\n\n", begins, m.Command, m.Date, m.Commit, m.Took)
	}
}

// runRows names the rows that a run measured, by workload.
func (r results) runRows(run int) string {
	var names []string
	for _, x := range r.Rows {
		if x.Run == run && !slices.Contains(names, x.Workload) {
			names = append(names, x.Workload)
		}
	}
	return strings.Join(names, ", ")
}

// tables writes the summary, the values, the processes and what could not be had.
func (r results) tables(w io.Writer) {
	r.summary(w)
	r.values(w)
	r.processes(w)
	r.times(w)
	r.failures(w)
}

// byWorkload are the rows of one workload and metric.
type byWorkload struct {
	name, unit string
	higher     bool
	rows       map[string]row
}

func (r results) grouped() (all []byWorkload) {
	for _, x := range r.Rows {
		k := slices.IndexFunc(all, func(g byWorkload) bool { return g.name == x.Workload })
		if k < 0 {
			k = len(all)
			all = append(all, byWorkload{x.Workload, x.Unit, x.Higher, map[string]row{}})
		}
		all[k].rows[x.System] = x
	}
	return all
}

// bestPeer is the rival that is ahead of the others, default and lean alike.
func (g byWorkload) bestPeer() (best row, ok bool) {
	for _, s := range systems() {
		x, has := g.rows[s.name]
		if has && x.Error == "" && !s.ours && !s.bound && (!ok || times(x, best) > 1) {
			best, ok = x, true
		}
	}
	return best, ok
}

// behind lists where a peer is ahead of tasks of the same language, or of all of ours.
func (r results) behind() (lines []string) {
	for _, g := range r.grouped() {
		best, ok := g.bestPeer()
		ours, has := g.fair()
		if ok && has && times(ours, best) < 1 {
			line := fmt.Sprintf("%s: %s is %s times as good as %s", g.name, best.System, number(1/times(ours, best)), ours.System)
			if why := cause(g.name); why != "" {
				line += ". " + why
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// fair is the row of ours to compare with peers, whose tasks are Python functions.
func (g byWorkload) fair() (row, bool) {
	for _, name := range []string{"cascade-python", "cascade-go"} {
		if x, ok := g.rows[name]; ok && x.Error == "" {
			return x, true
		}
	}
	return row{}, false
}

func (r results) summary(w io.Writer) {
	fmt.Fprint(w, "## Against the best of the others\n\nAbove 1 Cascade is ahead: so many times as fast, or as small. The best is taken from default and lean settings alike, without bounds; — where Cascade takes no part.\n\n"+
		"| workload | best other | its value | Cascade, Python tasks | Cascade, Go tasks |\n|---|---|---|---|---|\n")
	for _, g := range r.grouped() {
		best, ok := g.bestPeer()
		if !ok {
			continue
		}
		cell := func(name string) string {
			x, has := g.rows[name]
			switch {
			case !has:
				return ""
			case x.Error != "":
				return x.cell()
			}
			return "×" + number(times(x, best))
		}
		fmt.Fprintf(w, "| %s | %s | %s %s | %s | %s |\n", g.name, best.System, number(best.Value), g.unit, cell("cascade-python"), cell("cascade-go"))
	}
	fmt.Fprintln(w)
}

func (r results) values(w io.Writer) {
	fmt.Fprint(w, "## Medians\n\nBehind ± is half of the range of the runs, in percent. Why there is no number is listed below: — where a system takes no part or was not tried. Columns of bounds are in italics.\n\n| workload | unit |")
	line := "\n|---|---|"
	all := systems()
	for _, s := range all {
		name := s.name
		if s.bound {
			name = "*" + name + "*"
		}
		fmt.Fprintf(w, " %s |", name)
		line += "---|"
	}
	fmt.Fprintln(w, line)
	for _, g := range r.grouped() {
		better := "less is better"
		if g.higher {
			better = "more is better"
		}
		fmt.Fprintf(w, "| %s | %s, %s |", g.name, g.unit, better)
		for _, s := range all {
			x, has := g.rows[s.name]
			switch {
			case !has:
				fmt.Fprint(w, "  |")
			case x.Error != "":
				fmt.Fprintf(w, " %s |", x.cell())
			case len(x.Runs) == 1:
				fmt.Fprintf(w, " %s |", number(x.Value))
			default:
				fmt.Fprintf(w, " %s ±%.0f%% |", number(x.Value), 100*x.spread())
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

func (r results) processes(w io.Writer) {
	fmt.Fprint(w, "## Processes\n\nWhen the system is up and warm and has nothing to do; memory is private and file pages, each shared page in part.\n\n"+
		"| system | version | processes | memory, MiB | cores busy | what they are |\n|---|---|---|---|---|---|\n")
	for _, s := range systems() {
		m, ok := r.Models[s.name]
		if !ok {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %d | %.0f | %.2f | %s |\n", s.name, m.Version, m.Processes, m.Memory, m.CPU, m.Says)
	}
	fmt.Fprintln(w)
}

// times writes where the time of the first run went.
func (r results) times(w io.Writer) {
	var suites []string
	for _, x := range r.Spent {
		if !slices.Contains(suites, x.Suite) {
			suites = append(suites, x.Suite)
		}
	}
	if len(suites) == 0 {
		return
	}
	fmt.Fprint(w, "## Where the time went\n\nSeconds of the first run, with starts and ends of systems, by parts of the table of workloads.\n\n| part | all |")
	line := "\n|---|---|"
	for _, s := range systems() {
		fmt.Fprintf(w, " %s |", s.name)
		line += "---|"
	}
	fmt.Fprintln(w, line)
	for _, suite := range suites {
		sum, cells := 0.0, ""
		for _, s := range systems() {
			seconds := 0.0
			for _, x := range r.Spent {
				if x.Suite == suite && x.System == s.name {
					seconds += x.Seconds
				}
			}
			sum += seconds
			cells += fmt.Sprintf(" %.0f |", seconds)
		}
		fmt.Fprintf(w, "| %s | %.0f |%s\n", suite, sum, cells)
	}
	fmt.Fprintln(w)
}

// failures lists why there are no numbers: each system's words once, with the rows to which they belong.
func (r results) failures(w io.Writer) {
	type words struct{ system, text string }
	var order []words
	of := map[words][]string{}
	for _, s := range systems() {
		for _, x := range r.Rows {
			if k := (words{s.name, x.Error}); x.System == s.name && x.Error != "" {
				if of[k] == nil {
					order = append(order, k)
				}
				of[k] = append(of[k], x.Workload)
			}
		}
	}
	if len(order) == 0 {
		return
	}
	fmt.Fprint(w, "## What could not be had\n\n| system | in its words | rows |\n|---|---|---|\n")
	for _, k := range order {
		fmt.Fprintf(w, "| %s | %s | %s |\n", k.system, strings.ReplaceAll(k.text, "|", "\\|"), strings.Join(of[k], ", "))
	}
}

// number prints three digits that count.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1000:
		return grouped(fmt.Sprintf("%.0f", x))
	case a >= 100:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.3g", x)
	}
}

// grouped puts commas between thousands.
func grouped(digits string) string {
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
