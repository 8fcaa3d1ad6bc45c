package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/internal/report"
)

func isTerminal(w io.Writer) bool {
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

// table prints rows with the columns that the row type's json names give, or
// only those listed; with --json each row as an object.
func table[T any](a *app, rows []T, columns ...string) error {
	if a.json {
		for _, r := range rows {
			if err := a.printJSON(r); err != nil {
				return err
			}
		}
		return nil
	}
	fields := map[string]int{}
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = i
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(strings.ReplaceAll(strings.Join(columns, "\t"), "_", " ")))
	for _, r := range rows {
		cells := make([]string, len(columns))
		for i, name := range columns {
			cells[i] = cell(name, reflect.ValueOf(r).Field(fields[name]).Interface())
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func cell(column string, v any) string {
	switch v := v.(type) {
	case uint64:
		switch column {
		case "size", "bytes_in", "bytes_out", "peak_memory":
			return size(v)
		}
	case int64:
		if column == "memory" {
			return size(uint64(v))
		}
	case float64:
		if strings.Contains(column, "seconds") {
			return report.Seconds(v)
		}
	case string:
		switch column {
		case "submitted", "ended", "started", "at", "seen":
			return clock(v)
		case "error", "detail":
			return oneLine(v)
		}
		if v == "" {
			return "-"
		}
	case []uint64:
		if len(v) == 0 {
			return "-"
		}
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", "x")
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
func clock(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return s
	}
	t = t.Local()
	if now := time.Now(); t.Year() != now.Year() || t.YearDay() != now.YearDay() {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("15:04:05.000")
}

func size(n uint64) string { return units.BytesSize(float64(n)) }

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]string{"version": cascade.Version()})
			}
			_, err := fmt.Fprintln(a.out, "cascade", cascade.Version())
			return err
		},
	}
}
