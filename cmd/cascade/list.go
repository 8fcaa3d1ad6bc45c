package main

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/dag"
)

// listing says which rows of a list are printed, in which order and form. All lists
// have the same flags.
type listing struct {
	form    string // of listForms; "": a table, or JSON with --json
	status  []string
	family  string
	host    string
	tenant  string
	labels  []string
	sort    string // a column; behind a minus from the largest on
	limit   int    // 0: all
	columns []string
	bare    bool // without the names of the columns
}

// listForms are the forms of a list.
var listForms = []string{"table", "wide", "csv", "json", "name"}

// listForm is the value of -o of a list.
type listForm struct {
	choice
	a *app
}

func (f *listForm) Set(s string) error {
	if err := f.choice.Set(s); err != nil {
		return err
	}
	f.a.json = f.a.json || s == "json"
	return nil
}

// asList gives a command that lists the flags of lists: of those that choose rows the named ones.
func (a *app) asList(c *cobra.Command, selectors ...string) *cobra.Command {
	f := c.Flags()
	f.VarP(&listForm{choice{&a.list.form, listForms}, a}, "output", "o", "form: wide has all columns, name the first alone")
	f.StringSliceVar(&a.list.columns, "columns", nil, "print these `columns`, such as name,seconds; wide shows which there are")
	f.StringVar(&a.list.sort, "sort", "", "sort by this `column`; -COLUMN begins with the largest")
	f.IntVar(&a.list.limit, "limit", 0, "print at most this many rows (default all)")
	f.Lookup("limit").DefValue = "0"
	f.BoolVar(&a.list.bare, "no-headers", false, "leave out the names of the columns")
	for _, s := range selectors {
		switch s {
		case "status":
			f.StringSliceVar(&a.list.status, s, nil, "only those of this `status`, such as running or failed; repeatable")
		case "family":
			f.StringVar(&a.list.family, s, "", "only this family or task, such as spread, spread[*,500] or spread[2,500]")
		case "host":
			f.StringVar(&a.list.host, s, "", "only those on this host")
		case "tenant":
			f.StringVar(&a.list.tenant, s, "", "only those of this tenant")
		case "label":
			f.StringSliceVar(&a.list.labels, s, nil, "only those with this label, `NAME=VALUE`; repeatable")
		}
	}
	return c
}

// rowFields are the fields of a row by the names of their columns.
type rowFields struct {
	names []string // in the order of the type
	index map[string][]int
}

func fieldsOf[T any]() rowFields {
	f := rowFields{index: map[string][]int{}}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if column := field.Tag.Get("column"); column != "" {
			name = column
		}
		if field.Anonymous || name == "" || name == "-" {
			continue
		}
		if f.index[name] == nil {
			f.names = append(f.names, name)
		}
		f.index[name] = field.Index
	}
	return f
}

// value is what a row has in a column; nil when there is no such column. The host is where
// an agent is.
func (f *rowFields) value(row reflect.Value, column string) any {
	at := f.index[column]
	if at == nil && column == "host" {
		at = f.index["agent"]
	}
	if at == nil {
		return nil
	}
	return row.FieldByIndex(at).Interface()
}

func (f *rowFields) has(column string) bool {
	return f.index[column] != nil || column == "host" && f.index["agent"] != nil
}

func (f *rowFields) check(flag string, columns ...string) error {
	for _, c := range columns {
		if !f.has(c) {
			hint := dag.DidYouMean(c, f.names)
			return hintedf(strings.TrimSpace(hint+" there are "+strings.Join(f.names, ", ")), "--%s %s: there is no such column", flag, c)
		}
	}
	return nil
}

// keeps tells whether a row is wanted.
func (l *listing) keeps(f *rowFields, row reflect.Value) bool {
	text := func(columns ...string) string {
		for _, c := range columns {
			if s, ok := f.value(row, c).(string); ok && s != "" {
				return s
			}
		}
		return ""
	}
	stands := text("phase", "state")
	if head, _, cut := strings.Cut(stands, ","); cut { // running, not heard of
		stands = head
	}
	switch {
	case len(l.status) > 0 && !slices.Contains(l.status, stands) && !slices.Contains(l.status, strings.ReplaceAll(stands, " ", "-")),
		l.host != "" && text("host", "name") != l.host,
		l.tenant != "" && text("tenant") != l.tenant,
		l.family != "" && slices.Contains(taskStates(), l.family) && text("group") != l.family:
		return false
	}
	labels, _ := f.value(row, "labels").([]string)
	return !slices.ContainsFunc(l.labels, func(want string) bool { return !slices.Contains(labels, want) })
}

// chosen are the rows that are wanted, in the order that is wanted.
func chosen[T any](l *listing, f *rowFields, rows iter.Seq2[*T, error]) iter.Seq2[*T, error] {
	if len(l.status) > 0 || l.host != "" || l.tenant != "" || l.family != "" || len(l.labels) > 0 {
		rows = wanted(rows, func(row *T) bool { return l.keeps(f, reflect.ValueOf(row).Elem()) })
	}
	switch {
	case l.sort != "":
		return sorted(rows, l.limit, func(a, b *T) int { return l.compare(f, reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()) })
	case l.limit > 0:
		return upTo(rows, l.limit)
	}
	return rows
}

func wanted[T any](rows iter.Seq2[*T, error], keep func(*T) bool) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for row, err := range rows {
			if (err != nil || keep(row)) && !yield(row, err) {
				return
			}
		}
	}
}

func upTo[T any](rows iter.Seq2[*T, error], n int) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		left := n
		for row, err := range rows {
			if left--; !yield(row, err) || left == 0 {
				return
			}
		}
	}
}

// each are rows that are there.
func each[T any](rows []*T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// sorted are the first n rows by an order, all when n is 0: no more than about twice as many are held.
func sorted[T any](rows iter.Seq2[*T, error], n int, order func(a, b *T) int) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		var held []*T
		trim := func() {
			slices.SortStableFunc(held, order)
			if n > 0 && len(held) > n {
				clear(held[n:])
				held = held[:n]
			}
		}
		for row, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			one := *row // the next may take its place
			if held = append(held, &one); n > 0 && len(held) > 2*n+gridRows {
				trim()
			}
		}
		trim()
		each(held)(yield)
	}
}

func (l *listing) compare(f *rowFields, a, b reflect.Value) int {
	column, reverse := strings.CutPrefix(l.sort, "-")
	var n int
	switch x := f.value(a, column).(type) {
	case string:
		n = strings.Compare(x, f.value(b, column).(string))
	case uint64:
		n = cmp.Compare(x, f.value(b, column).(uint64))
	case uint32:
		n = cmp.Compare(x, f.value(b, column).(uint32))
	case int64:
		n = cmp.Compare(x, f.value(b, column).(int64))
	case float64:
		n = cmp.Compare(x, f.value(b, column).(float64))
	default:
		n = strings.Compare(fmt.Sprint(x), fmt.Sprint(f.value(b, column)))
	}
	if reverse {
		return -n
	}
	return n
}

// check says what of the flags makes no sense for these rows.
func (l *listing) check(f *rowFields) error {
	if l.limit < 0 {
		return badInputf("--limit %d: want a number above 0", l.limit)
	}
	if l.sort != "" {
		if err := f.check("sort", strings.TrimPrefix(l.sort, "-")); err != nil {
			return err
		}
	}
	if states := append(jobPhases(), append(taskStates(), "cut off", "cut-off", "away", "building")...); len(l.status) > 0 {
		for _, s := range l.status {
			if !slices.Contains(states, s) {
				return hintedf(strings.TrimSpace(dag.DidYouMean(s, states)+" jobs and tasks are queued, held, waiting, ready, running, done, failed, skipped, cancelled or cut-off"), "--status %s: nothing stands so", s)
			}
		}
	}
	return f.check("columns", l.columns...)
}

// tableOf is table for rows that come one by one, of which there may be millions: no
// more than a block of them is held, unless they are sorted.
func tableOf[T any](a *app, rows iter.Seq2[*T, error], columns ...string) error {
	l := &a.list
	f := fieldsOf[T]()
	if err := l.check(&f); err != nil {
		return err
	}
	rows = chosen(l, &f, rows)
	out := bufio.NewWriterSize(a.out, 64<<10)
	switch {
	case l.form == "name":
		columns = columns[:min(1, len(columns))]
	case l.form == "wide" || len(columns) == 0:
		columns = f.names
	}
	if len(l.columns) > 0 {
		columns = l.columns
	}
	var err error
	switch {
	case a.json:
		err = jsonRows(out, &f, rows, l.columns)
	case l.form == "csv":
		err = csvRows(out, &f, rows, columns, !l.bare)
	default:
		err = a.gridRows(out, &f, mapped(rows, func(row *T) *reflect.Value { v := reflect.ValueOf(row).Elem(); return &v }), columns, !l.bare && l.form != "name")
	}
	return errors.Join(err, out.Flush())
}

// jsonRows prints each row as an object, whole or of some columns.
func jsonRows[T any](out *bufio.Writer, f *rowFields, rows iter.Seq2[*T, error], columns []string) error {
	lines := json.NewEncoder(out)
	for row, err := range rows {
		if err != nil {
			return err
		}
		var object any = row
		if len(columns) > 0 {
			some := map[string]any{}
			for _, name := range columns {
				some[name] = f.value(reflect.ValueOf(row).Elem(), name)
			}
			object = some
		}
		if err := lines.Encode(object); err != nil {
			return fmt.Errorf("encode as JSON: %w", err)
		}
	}
	return nil
}

// csvRows prints values as they are, for programs.
func csvRows[T any](out *bufio.Writer, f *rowFields, rows iter.Seq2[*T, error], columns []string, head bool) error {
	w := csv.NewWriter(out)
	if head {
		if err := w.Write(columns); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	for row, err := range rows {
		if err != nil {
			w.Flush()
			return err
		}
		cells := make([]string, len(columns))
		for i, name := range columns {
			switch v := f.value(reflect.ValueOf(row).Elem(), name).(type) {
			case string:
				cells[i] = v
			case []string:
				cells[i] = strings.Join(v, " ")
			case []uint64:
				cells[i] = strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", "x")
			case nil:
			default:
				b, err := json.Marshal(v)
				if err != nil {
					return fmt.Errorf("write CSV: %w", err)
				}
				cells[i] = strings.TrimSuffix(string(b), "null")
			}
		}
		if err := w.Write(cells); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}

func headers(columns []string) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = strings.TrimSpace(strings.ToUpper(strings.ReplaceAll(c, "_", " ")))
	}
	return names
}

// gridRows prints rows in columns, for people.
func (a *app) gridRows(out *bufio.Writer, f *rowFields, rows iter.Seq2[*reflect.Value, error], columns []string, head bool) error {
	g := grid{out: out}
	if head {
		g.add(headers(columns))
	}
	for row, err := range rows {
		if err != nil {
			if g.widths != nil || len(g.held) > 1 { // there is more than the names of the columns
				g.flush()
			}
			return err
		}
		cells := make([]string, len(columns))
		for i, name := range columns {
			cells[i] = cell(name, f.value(*row, name))
		}
		g.add(cells)
	}
	g.flush()
	return nil
}
