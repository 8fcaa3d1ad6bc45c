// Package amount has the flags of durations, sizes and bandwidths, which are written in
// one way for all commands: 90s, 2h30m, 30d or 01:30:00; 512MiB or 8GiB; 100Mbit/s or
// 10Gbit/s.
package amount

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/pflag"

	"github.com/cascade-run/cascade/dag"
)

// Kinds maps what flags take to how it is written: the types of flags in help.
var Kinds = map[string]string{
	"duration":  "a duration, such as 90s, 2h30m or 30d",
	"size":      "a size, such as 512MiB or 8GiB",
	"bandwidth": "a bandwidth, such as 100Mbit/s or 10Gbit/s",
}

var (
	errSize      = errors.New("no size: write a number with its unit, such as 512MiB or 8GiB")
	errBandwidth = errors.New("no bandwidth: write a number with its unit, such as 100Mbit/s or 10Gbit/s")
)

// Duration adds a flag that takes a duration.
func Duration(f *pflag.FlagSet, to *time.Duration, name string, fallback time.Duration, usage string) {
	*to = fallback
	f.Var((*duration)(to), name, usage)
	if fallback == 0 {
		f.Lookup(name).DefValue = "0" // the text tells it
	}
}

type duration time.Duration

func (d *duration) String() string { return dag.DurationText(time.Duration(*d)) }
func (d *duration) Type() string   { return "duration" }
func (d *duration) Set(s string) error {
	v, err := dag.ParseDuration(s)
	*d = duration(v)
	return err
}

// Size adds a flag that takes bytes; it is 0 when the flag is not given.
func Size(f *pflag.FlagSet, to *int64, name, usage string) {
	f.Var((*size)(to), name, usage)
	f.Lookup(name).DefValue = "0" // the text tells it
}

type size int64

func (n *size) String() string { return units.BytesSize(float64(*n)) }
func (n *size) Type() string   { return "size" }
func (n *size) Set(s string) error {
	v, err := ParseSize(s)
	*n = size(v)
	return err
}

// ParseSize reads bytes: 512MiB, 8GiB. Units without an i are the same, as of containers.
func ParseSize(s string) (int64, error) {
	n, err := units.RAMInBytes(s)
	if err != nil || n < 0 {
		return 0, errSize
	}
	return n, nil
}

// Bandwidth adds a flag that takes bits a second; it is 0 when the flag is not given.
func Bandwidth(f *pflag.FlagSet, to *float64, name, usage string) {
	f.Var((*bandwidth)(to), name, usage)
	f.Lookup(name).DefValue = "0" // the text tells it
}

type bandwidth float64

func (b *bandwidth) String() string { return strconv.FormatFloat(float64(*b), 'g', -1, 64) + "bit/s" }
func (b *bandwidth) Type() string   { return "bandwidth" }
func (b *bandwidth) Set(s string) error {
	v, err := ParseBandwidth(s)
	*b = bandwidth(v)
	return err
}

var bits = regexp.MustCompile(`^(\d+(?:\.\d+)?) ?([kMGT]?)bit/s$`)

// ParseBandwidth reads bits a second: 100Mbit/s, 2.5Gbit/s.
func ParseBandwidth(s string) (float64, error) {
	m := bits.FindStringSubmatch(s)
	if m == nil {
		return 0, errBandwidth
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, errBandwidth
	}
	return v * math.Pow(1000, float64(slices.Index([]string{"", "k", "M", "G", "T"}, m[2]))), nil
}
