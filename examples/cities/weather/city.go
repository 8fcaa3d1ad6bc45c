package weather

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/cascade-run/cascade/examples/ensemble/fields"
)

// City is a place and what the ensemble says above it, at one pressure level.
type City struct {
	Name     string
	Lat, Lon float64     // degrees
	Height   float64     // of the ground above the sea, m
	Times    []string    // RFC 3339
	Values   [][]float64 // temperature by time and member, K
	Level    []float64   // height of the pressure level, mean of the members, by time, m
}

// Record is what the report knows of a city.
type Record struct {
	Name   string
	Mean   float64 // of the members at the last time, degrees Celsius
	Spread float64 // standard deviation of the members at the last time, K
	Change float64 // of the mean, from the first time to the last, K
}

// gravity turns geopotential into height, m s-2.
const gravity = 9.80665

// cities calls yield with each city of a list, a CSV with a line of titles:
// city,lat,lon,height.
func cities(list []byte, yield func(City) error) error {
	r := csv.NewReader(bytes.NewReader(list))
	r.FieldsPerRecord = 4
	r.ReuseRecord = true
	for line := 1; ; line++ {
		row, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("list of cities: %w", err)
		case line == 1:
			continue
		}
		c := City{Name: row[0]}
		for i, to := range []*float64{&c.Lat, &c.Lon, &c.Height} {
			if *to, err = strconv.ParseFloat(row[i+1], 64); err != nil {
				return fmt.Errorf("list of cities, line %d: %w", line, err)
			}
		}
		if math.Abs(c.Lat) > 90 || math.Abs(c.Lon) > 180 {
			return fmt.Errorf("list of cities, line %d: %s is at latitude %g, longitude %g", line, c.Name, c.Lat, c.Lon)
		}
		if err := yield(c); err != nil {
			return err
		}
	}
}

// point is a place between the points of a grid.
type point struct {
	at     [4]int
	weight [4]float64
}

// between finds the four grid points around a place and their bilinear weights.
// The grid is regular, goes from north to south and eastwards from 0, all around.
func between(g fields.Grid, lat, lon float64) point {
	rows, columns := len(g.Lat), len(g.Lon)
	y := (g.Lat[0] - lat) / (g.Lat[0] - g.Lat[1])
	x := math.Mod(lon+360, 360) / (g.Lon[1] - g.Lon[0])
	row, column := min(int(y), rows-2), int(x)
	dy, dx := y-float64(row), x-float64(column)
	west, east := column%columns, (column+1)%columns
	return point{
		at:     [4]int{row*columns + west, row*columns + east, (row+1)*columns + west, (row+1)*columns + east},
		weight: [4]float64{(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx},
	}
}

// of returns the value of a field at the place.
func (p point) of(field []float64) (v float64) {
	for i, at := range p.at {
		v += p.weight[i] * field[at]
	}
	return v
}

// meanSpread returns mean and standard deviation (n - 1) of the members.
func meanSpread(members []float64) (mean, spread float64) {
	for _, v := range members {
		mean += v
	}
	mean /= float64(len(members))
	for _, v := range members {
		spread += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(spread / float64(len(members)-1))
}
