package fields

import (
	"fmt"
	"io"
	"strconv"
	"time"
)

// Picture says what the values of a map are.
type Picture struct {
	Product   string  // mean, spread, probability or change
	Field     string  // short name
	Level     int     // hPa
	Step      int     // of time
	From      int     `with:",optional"` // of a change: the step it starts from
	Threshold float64 `with:",optional"` // of a probability, in the field's unit
}

// NewMap makes the map of a product: title, unit and colours.
func (m *Meta) NewMap(p Picture, values []float64) (Map, error) {
	f, err := m.FieldNamed(p.Field)
	if err != nil {
		return Map{}, err
	}
	for _, step := range []int{p.From, p.Step} {
		if step < 0 || step >= len(m.Times) {
			return Map{}, fmt.Errorf("step %d is not in the archive, it has %d", step, len(m.Times))
		}
	}
	where := fmt.Sprintf("%s at %d hPa", f.LongName, p.Level)
	when := stamp(m.Times[p.Step])
	pic := Map{Grid: m.Grid, Values: values, Units: f.Units, Source: source}
	switch p.Product {
	case "mean":
		pic.Title, pic.Scheme = fmt.Sprintf("%s, ensemble mean, %s", where, when), SchemeMean
	case "spread":
		pic.Title, pic.Scheme = fmt.Sprintf("%s, ensemble spread, %s", where, when), SchemeSpread
	case "probability":
		pic.Title = fmt.Sprintf("%s above %s %s, share of members, %s", where, strconv.FormatFloat(p.Threshold, 'f', -1, 64), f.Units, when)
		pic.Scheme, pic.Units = SchemeProbability, "share"
	case "change":
		pic.Title = fmt.Sprintf("%s, change of the ensemble mean, %s to %s", where, stamp(m.Times[p.From]), when)
		pic.Scheme = SchemeChange
	default:
		return Map{}, fmt.Errorf("product %q is not one of mean, spread, probability, change", p.Product)
	}
	return pic, nil
}

const source = "ERA5 ensemble on a grid of 3 degrees. Generated using Copernicus Climate Change Service information."

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// WriteChanges writes the comparison of consecutive steps as CSV with titles,
// numbers in full precision.
func (m *Meta) WriteChanges(w io.Writer, field string, level int, changes []StepChange) error {
	if len(changes) >= len(m.Times) {
		return fmt.Errorf("write changes: %d of them between %d steps", len(changes), len(m.Times))
	}
	text := "field,level,from,to,mean_change,mean_change_rms,spread_change,spread_change_rms\n"
	for i, c := range changes {
		text += fmt.Sprintf("%s,%d,%s,%s", field, level, m.Times[i].UTC().Format(time.RFC3339), m.Times[i+1].UTC().Format(time.RFC3339))
		for _, v := range []float64{c.Mean, c.MeanRMS, c.Spread, c.SpreadRMS} {
			text += "," + strconv.FormatFloat(v, 'g', -1, 64)
		}
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
