package fields

import (
	"bytes"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
)

// The tasks called as plain Go functions, in the order of the job.
func TestTasksByHand(t *testing.T) {
	ctx, want := t.Context(), readGolden(t)
	from := Source{File: "../data/era5-ensemble.npy", Steps: 4}
	meta, err := describe(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	var means, spreads []Fields
	var step int
	for fields, err := range decode(ctx, from) {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(fields.Shape, []int{2, 2, 10, 61, 120}) {
			t.Fatalf("step of shape %v", fields.Shape)
		}
		w := want.Statistics[4*step+3] // 850 hPa, t
		m, err := mean(ctx, fields, meta, Choice{"t", 850})
		if err != nil {
			t.Fatal(err)
		}
		compareSummary(t, "mean", meta.Grid, want.Points, m.Data, w.Mean, w.Mean.Max)
		s, err := spread(ctx, fields, meta, Choice{"t", 850})
		if err != nil {
			t.Fatal(err)
		}
		compareSummary(t, "spread", meta.Grid, want.Points, s.Data, w.Spread, w.Mean.Max)
		p, err := probability(ctx, fields, meta, Above{"t", 850, w.Threshold})
		if err != nil {
			t.Fatal(err)
		}
		compareSummary(t, "probability", meta.Grid, want.Points, p.Data, w.Probability, 1)
		means, spreads = append(means, m), append(spreads, s)
		step++
	}
	if step != 4 {
		t.Fatalf("%d steps, want 4", step)
	}
	csv, change, err := compare(ctx, cascade.ListOf(means...), cascade.ListOf(spreads...), meta, Choice{"t", 850})
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(csv), "\n"); lines != 4 {
		t.Errorf("table of %d lines, want titles and 3 changes:\n%s", lines, csv)
	}
	if got, want := change.At(13, 4), means[3].At(13, 4)-means[0].At(13, 4); got != want {
		t.Errorf("change %g, want %g", got, want)
	}
	pic, err := drawMap(ctx, change, meta, Picture{Product: "change", Field: "t", Level: 850, Step: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(pic)); err != nil {
		t.Error(err)
	}
}

func TestTasksRefuse(t *testing.T) {
	ctx := t.Context()
	from := Source{File: "../data/era5-ensemble.npy", Steps: 4}
	meta, err := describe(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	fields := Fields{Data: make([]float64, meta.StepLen()), Shape: meta.StepShape()}
	firstError := func(s Source) error {
		for _, err := range decode(ctx, s) {
			return err
		}
		return nil
	}
	tests := []struct {
		name string
		err  func() error
		want string
	}{
		{"too many steps", func() error { return firstError(Source{from.File, 5}) }, "5 steps of the archive: it has 4"},
		{"no steps", func() error { return firstError(Source{from.File, 0}) }, "0 steps of the archive: it has 4"},
		{"no file", func() error { return firstError(Source{"nowhere.npy", 1}) }, "nowhere.json: no such file"},
		{"level", func() error { _, err := mean(ctx, fields, meta, Choice{"t", 1000}); return err }, "level 1000 hPa is not in the archive"},
		{"one step", func() error {
			_, _, err := compare(ctx, cascade.ListOf(fields), cascade.ListOf(fields), meta, Choice{"t", 850})
			return err
		}, "compare steps: 1 steps, need at least 2"},
		{"product", func() error { _, err := drawMap(ctx, fields, meta, Picture{Product: "x", Field: "t"}); return err }, `product "x" is not one of`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.err(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
		})
	}
}
