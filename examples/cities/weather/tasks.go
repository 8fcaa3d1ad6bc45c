package weather

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/examples/ensemble/fields"
)

// The functions that job files name, as weather:Read and so on.
var (
	Read   = cascade.Gen2("Read", read, "list, with -> city")
	Assess = cascade.Func1("Assess", assess, "city -> record")
	Series = cascade.Func1("Series", series, "city -> csv")
	Rank   = cascade.Func2("Rank", rank, "records, with -> table")
)

// ErrGround is the error of a city that lies above the pressure level.
var ErrGround = cascade.RegisterError("ground", errors.New("the level is below the ground"))

// Source names the ensemble's archive and the level to read.
type Source struct {
	File  string // .npy; a relative path starts at the job file's folder
	Level int    // hPa
}

// By says which number of the records a table is sorted by, and its length.
type By struct {
	By  string // warmest, coldest, uncertain or changed
	Top int
}

// read publishes one city after the other. How many there are only the list says.
func read(ctx context.Context, list []byte, with Source) iter.Seq2[City, error] {
	return func(yield func(City, error) bool) {
		if !filepath.IsAbs(with.File) {
			with.File = filepath.Join(cascade.Task(ctx).Dir, with.File)
		}
		temperature, geopotential, about, err := load(with)
		if err == nil {
			err = cities(list, func(c City) error {
				fill(&c, temperature, geopotential, about)
				if !yield(c, nil) {
					return context.Cause(ctx)
				}
				return nil
			})
		}
		if err != nil && ctx.Err() == nil {
			yield(City{}, err)
		}
	}
}

// load reads temperature and geopotential of a level: [time][member][lat][lon].
func load(s Source) (temperature, geopotential [][]float64, about *fields.Meta, err error) {
	a, err := fields.Open(s.File)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range a.Times {
		step := make([]float64, a.StepLen())
		if err := a.Step(step, i); err != nil {
			return nil, nil, nil, err
		}
		t, err := a.Select(step, s.Level, "t")
		if err != nil {
			return nil, nil, nil, err
		}
		z, err := a.Select(step, s.Level, "z")
		if err != nil {
			return nil, nil, nil, err
		}
		temperature, geopotential = append(temperature, t), append(geopotential, z)
	}
	return temperature, geopotential, &a.Meta, nil
}

func fill(c *City, temperature, geopotential [][]float64, about *fields.Meta) {
	here, points := between(about.Grid, c.Lat, c.Lon), about.Points()
	for i, at := range about.Times {
		values, height := make([]float64, len(about.Members)), 0.0
		for m := range values {
			values[m] = here.of(temperature[i][m*points : (m+1)*points])
			height += here.of(geopotential[i][m*points:(m+1)*points]) / gravity / float64(len(values))
		}
		c.Times = append(c.Times, at.Format("2006-01-02T15:04Z"))
		c.Values = append(c.Values, values)
		c.Level = append(c.Level, height)
	}
}

func assess(_ context.Context, c City) (Record, error) {
	last := len(c.Values) - 1
	if c.Level[last] < c.Height {
		return Record{}, fmt.Errorf("%s lies at %.0f m, the level at %.0f m: %w", c.Name, c.Height, c.Level[last], ErrGround)
	}
	before, _ := meanSpread(c.Values[0])
	mean, spread := meanSpread(c.Values[last])
	return Record{Name: c.Name, Mean: mean - 273.15, Spread: spread, Change: mean - before}, nil
}

// series writes the members of a city at each time. Where the level is below the
// ground the model goes on with what the air would be like.
func series(_ context.Context, c City) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "time,member,celsius\n")
	for i, at := range c.Times {
		for m, v := range c.Values[i] {
			fmt.Fprintf(&b, "%s,%d,%.2f\n", at, m, v-273.15)
		}
	}
	return b.Bytes(), nil
}

// rank writes a table of the cities that come first. A city whose record failed is
// missing in the list.
func rank(_ context.Context, records cascade.List[Record], with By) ([]byte, error) {
	orders := map[string]func(r Record) float64{
		"warmest":   func(r Record) float64 { return -r.Mean },
		"coldest":   func(r Record) float64 { return r.Mean },
		"uncertain": func(r Record) float64 { return -r.Spread },
		"changed":   func(r Record) float64 { return -max(r.Change, -r.Change) },
	}
	order, ok := orders[with.By]
	if !ok {
		return nil, fmt.Errorf("cannot rank by %q: want warmest, coldest, uncertain or changed", with.By)
	}
	all := slices.SortedFunc(slices.Values(records.Values()), func(a, b Record) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Name, b.Name))
	})
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, of %d cities out of %d\n", with.By, records.Len(), records.Total())
	for _, r := range all[:min(with.Top, len(all))] {
		fmt.Fprintf(&b, "  %-16s %7.2f C %6.2f K spread %+7.2f K change\n", r.Name, r.Mean, r.Spread, r.Change)
	}
	return b.Bytes(), nil
}
