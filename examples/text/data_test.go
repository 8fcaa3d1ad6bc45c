package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/cascade-run/cascade/examples/ensemble/fields"
)

// data/members.csv is what derive/derive.py makes of the ensemble's array. This
// computes it a second time, in Go, and allows for the last printed digit.
func TestMembersComeFromTheEnsemble(t *testing.T) {
	archive, err := fields.Open("../ensemble/data/era5-ensemble.npy")
	if err != nil {
		t.Fatal(err)
	}
	bands := readCSV(t, "data/bands.csv")
	rows := readCSV(t, "data/members.csv")
	step := make([]float64, archive.StepLen())
	points, k := archive.Points(), 0
	for i, at := range archive.Times {
		if err := archive.Step(step, i); err != nil {
			t.Fatal(err)
		}
		for _, level := range archive.Levels {
			for _, field := range archive.Fields {
				members, err := archive.Select(step, level, field.Name)
				if err != nil {
					t.Fatal(err)
				}
				for m := range archive.Members {
					for _, band := range bands {
						if k >= len(rows) {
							t.Fatalf("members.csv has only %d rows", len(rows))
						}
						checkRow(t, rows[k], archive.Grid, members[m*points:(m+1)*points], band,
							at.Format("2006-01-02T15:04:05Z"), fmt.Sprint(level), field.Name, fmt.Sprint(archive.Members[m]), band[0])
						k++
					}
				}
			}
		}
	}
	if k != len(rows) {
		t.Errorf("members.csv has %d rows, want %d", len(rows), k)
	}
}

func checkRow(t *testing.T, row []string, g fields.Grid, x []float64, band []string, key ...string) {
	t.Helper()
	if !slices.Equal(row[:5], key) {
		t.Fatalf("row of %v, want %v", row[:5], key)
	}
	south, north := number(t, band[1]), number(t, band[2])
	var sum, weight float64
	low, high := math.Inf(1), math.Inf(-1)
	for r, lat := range g.Lat {
		if lat < south || lat > north {
			continue
		}
		w := math.Cos(lat * math.Pi / 180)
		if lat == south || lat == north {
			w /= 2 // the row on the border belongs half to each band
		}
		for _, v := range x[r*len(g.Lon) : (r+1)*len(g.Lon)] {
			sum, weight = sum+w*v, weight+w
			low, high = min(low, v), max(high, v)
		}
	}
	half := 0.05 + 1e-6 // of the last digit
	if key[2] == "t" {
		half = 0.0005 + 1e-9
	}
	for i, want := range []float64{sum / weight, low, high} {
		if got := number(t, row[5+i]); math.Abs(got-want) > half {
			t.Errorf("%v column %d: %v, want %v", key, 5+i, got, want)
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// readCSV returns the rows below the titles.
func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}
