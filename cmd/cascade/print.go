package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docker/go-units"
	"golang.org/x/term"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/internal/screen"
)

func isTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "%s\n", b)
	return err
}

// note tells the user something on standard error that is no error.
func (a *app) note(format string, args ...any) {
	text := screen.Line(fmt.Sprintf(format, args...))
	switch {
	case a.quiet:
	case a.json:
		if b, err := json.Marshal(map[string]string{"note": text}); err == nil { // it is a text
			fmt.Fprintf(a.err, "%s\n", b)
		}
	default:
		fmt.Fprintf(a.err, "%s\n", text)
	}
}

// table prints rows with the columns that the row type's json names give, or
// only those listed; with --json each row as an object.
func table[T any](a *app, rows []T, columns ...string) error {
	return tableOf(a, eachOf(rows), columns...)
}

func eachOf[T any](rows []T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for i := range rows {
			if !yield(&rows[i], nil) {
				return
			}
		}
	}
}

// gridRows is how many rows are aligned together.
const gridRows = 1000

// grid writes rows of cells in columns. Columns only grow wider from one block of
// rows to the next, and no line ends in spaces: text/tabwriter begins each block anew
// and fills up an empty cell at the end.
type grid struct {
	out    *bufio.Writer // keeps its first error
	held   [][]string
	widths []int
}

func (g *grid) add(cells []string) {
	for i := range cells {
		cells[i] = screen.Line(cells[i])
	}
	if g.held = append(g.held, cells); len(g.held) == gridRows {
		g.flush()
	}
}

func (g *grid) flush() {
	for _, cells := range g.held {
		for i, text := range cells {
			if i == len(g.widths) {
				g.widths = append(g.widths, 0)
			}
			g.widths[i] = max(g.widths[i], utf8.RuneCountInString(text))
		}
	}
	for _, cells := range g.held {
		gap := 0
		for i, text := range cells {
			if text != "" {
				fmt.Fprintf(g.out, "%*s%s", gap, "", text)
				gap = 0
			}
			gap += g.widths[i] - utf8.RuneCountInString(text) + 2
		}
		fmt.Fprintln(g.out)
	}
	clear(g.held)
	g.held = g.held[:0]
}

func cell(column string, v any) string {
	switch v := v.(type) {
	case uint64:
		switch column {
		case "peak_memory": // every process has some: it is not known
			if v == 0 {
				return "-"
			}
			return size(v)
		case "size", "bytes_in", "bytes_out":
			return size(v)
		}
	case int64:
		if column == "memory" {
			return size(uint64(v))
		}
	case float64:
		if column == "seconds" && v == 0 { // it has not begun
			return "-"
		}
		if strings.Contains(column, "seconds") {
			return report.Seconds(v)
		}
	case string:
		switch column {
		case "submitted", "ended", "started", "at", "seen", "used", "expires":
			if v == "" {
				return "-"
			}
			return clock(v)
		case "error", "detail", "why":
			return oneLine(v)
		}
		if v == "" {
			return "-"
		}
	case *comms.HostUse:
		if v != nil {
			return fmt.Sprintf("%.1f of %s, %s of %s", v.Busy, coreText(float64(v.Cores)), size(v.Memory), size(v.Total))
		}
	case []uint64:
		if len(v) == 0 {
			return "-"
		}
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", "x")
	}
	if v == nil || reflect.ValueOf(v).Kind() == reflect.Pointer && reflect.ValueOf(v).IsNil() {
		return "-"
	}
	switch reflect.ValueOf(v).Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Struct:
		b, err := json.Marshal(v)
		if err != nil || string(b) == "null" || string(b) == "[]" {
			return "-"
		}
		return oneLine(string(b))
	}
	return fmt.Sprint(v)
}

// longest is the most characters of an error in a table; --json has all of it.
const longest = 100

func oneLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if r := []rune(line); len(r) > longest {
		line = string(r[:longest-1]) + "…"
	}
	return line
}

// clock prints a time as local time of day, with the date when it is not today.
func clock(s string) string { return localTime(s, "15:04:05.000") }

// localTime prints a time in RFC 3339 for people: of today by layout, of other days with
// the date.
func localTime(s, layout string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return s
	}
	t = t.Local()
	if now := time.Now(); t.Year() != now.Year() || t.YearDay() != now.YearDay() {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format(layout)
}

func size(n uint64) string { return units.BytesSize(float64(n)) }
