package weather

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/examples/ensemble/fields"
)

// On a field that is linear in latitude and longitude interpolation is exact, also
// across the meridian where the columns begin again.
func TestBetween(t *testing.T) {
	var g fields.Grid
	for lat := 90.0; lat >= -90; lat -= 3 {
		g.Lat = append(g.Lat, lat)
	}
	for lon := 0.0; lon < 360; lon += 3 {
		g.Lon = append(g.Lon, lon)
	}
	north, east := make([]float64, g.Points()), make([]float64, g.Points())
	for r, lat := range g.Lat {
		for c, lon := range g.Lon {
			north[r*len(g.Lon)+c] = lat
			east[r*len(g.Lon)+c] = math.Sin(lon * math.Pi / 180)
		}
	}
	for _, tt := range []struct{ lat, lon float64 }{{0, 0}, {51.45, -0.97}, {-36.85, 174.76}, {90, 10}, {-90, 179.9}, {-89, -180}} {
		p := between(g, tt.lat, tt.lon)
		if got := p.of(north); math.Abs(got-tt.lat) > 1e-9 {
			t.Errorf("latitude at %v is %v", tt, got)
		}
		if got, want := p.of(east), math.Sin(tt.lon*math.Pi/180); math.Abs(got-want) > 1e-3 {
			t.Errorf("sine of longitude at %v is %v, want %v", tt, got, want)
		}
	}
}

func TestLists(t *testing.T) {
	for _, tt := range []struct{ name, list, want string }{
		{"good", "city,lat,lon,height\nA,1,2,3\n", ""},
		{"no city", "city,lat,lon,height\n", ""},
		{"number", "city,lat,lon,height\nA,1,2,3\nB,north,2,3\n", `line 3: strconv.ParseFloat: parsing "north"`},
		{"columns", "city,lat,lon,height\nA,1,2\n", "wrong number of fields"},
		{"place", "city,lat,lon,height\nA,91,0,0\n", "line 2: A is at latitude 91"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := cities([]byte(tt.list), func(City) error { return nil })
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAssess(t *testing.T) {
	c := City{Name: "A", Height: 1600, Values: [][]float64{{280, 282}, {283, 285}}, Level: []float64{1700, 1500}}
	if _, err := assess(context.Background(), c); !errors.Is(err, ErrGround) {
		t.Errorf("a city above the level gives %v", err)
	}
	c.Height = 1400
	r, err := assess(context.Background(), c)
	if err != nil || math.Abs(r.Mean-10.85) > 1e-9 || math.Abs(r.Spread-math.Sqrt2) > 1e-9 || math.Abs(r.Change-3) > 1e-9 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestRank(t *testing.T) {
	records := cascade.ListOf(Record{Name: "B", Mean: 1, Change: -9}, Record{Name: "A", Mean: 1, Change: 2})
	for by, first := range map[string]string{"warmest": "  A", "coldest": "  A", "uncertain": "  A", "changed": "  B"} {
		b, err := rank(context.Background(), records, By{By: by, Top: 1})
		if err != nil || !strings.HasPrefix(string(b), by+", of 2 cities out of 2\n"+first) || strings.Count(string(b), "\n") != 2 {
			t.Errorf("%s: %q, %v", by, b, err)
		}
	}
	if _, err := rank(context.Background(), records, By{By: "size"}); err == nil {
		t.Error("ranked by size")
	}
}
