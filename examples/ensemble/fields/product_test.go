package fields

import (
	"strings"
	"testing"
)

func TestNewMap(t *testing.T) {
	a := openArchive(t)
	tests := []struct {
		p           Picture
		title, unit string
		err         string
	}{
		{Picture{Product: "mean", Field: "t", Level: 850, Step: 3}, "Temperature at 850 hPa, ensemble mean, 2017-01-02 12:00 UTC", "K", ""},
		{Picture{Product: "spread", Field: "z", Level: 500, Step: 0}, "Geopotential at 500 hPa, ensemble spread, 2017-01-01 00:00 UTC", "m2 s-2", ""},
		{Picture{Product: "probability", Field: "t", Level: 850, Step: 1, Threshold: 273.15}, "Temperature at 850 hPa above 273.15 K, share of members, 2017-01-01 12:00 UTC", "share", ""},
		{Picture{Product: "change", Field: "t", Level: 500, From: 0, Step: 3}, "Temperature at 500 hPa, change of the ensemble mean, 2017-01-01 00:00 UTC to 2017-01-02 12:00 UTC", "K", ""},
		{Picture{Product: "median", Field: "t"}, "", "", `product "median" is not one of mean, spread, probability, change`},
		{Picture{Product: "mean", Field: "q"}, "", "", `field "q" is not in the archive, it has [z t]`},
		{Picture{Product: "mean", Field: "t", Step: 4}, "", "", "step 4 is not in the archive, it has 4"},
		{Picture{Product: "change", Field: "t", From: -1}, "", "", "step -1 is not in the archive, it has 4"},
	}
	for _, tt := range tests {
		m, err := a.NewMap(tt.p, nil)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%+v: error %v, want %s", tt.p, err, tt.err)
			}
			continue
		}
		if err != nil || m.Title != tt.title || m.Units != tt.unit {
			t.Errorf("%+v: %q in %q, %v, want %q in %q", tt.p, m.Title, m.Units, err, tt.title, tt.unit)
		}
	}
}

func TestWriteChanges(t *testing.T) {
	a := openArchive(t)
	var b strings.Builder
	if err := a.WriteChanges(&b, "t", 500, []StepChange{{1, 0.5, -2e-9, 3}, {0, 0, 0, 0.1}}); err != nil {
		t.Fatal(err)
	}
	const want = `field,level,from,to,mean_change,mean_change_rms,spread_change,spread_change_rms
t,500,2017-01-01T00:00:00Z,2017-01-01T12:00:00Z,1,0.5,-2e-09,3
t,500,2017-01-01T12:00:00Z,2017-01-02T00:00:00Z,0,0,0,0.1
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if err := a.WriteChanges(&b, "t", 500, make([]StepChange, 4)); err == nil {
		t.Error("no error for more changes than steps")
	}
}
