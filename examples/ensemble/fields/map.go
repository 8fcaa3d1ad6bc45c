package fields

import (
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Map is one picture: values on a global grid, in classes of colour, with lines
// between the classes.
type Map struct {
	Title  string // what, level, time
	Units  string // beside the colour bar
	Source string // attribution, at the foot
	Scheme Scheme
	Grid   Grid
	Values []float64 // one for each grid point, rows north to south; NaN stays grey
}

const (
	mapWidth, mapHeight = 11 * vg.Inch, 6 * vg.Inch
	mapDPI              = 100
	barRoom             = 1.15 * vg.Inch
	footRoom            = 0.3 * vg.Inch
	pixelsPerDegree     = 3
)

// WritePNG draws m as a PNG of 1100 x 600 points: an equirectangular projection
// with Greenwich in the middle. Between grid points values are interpolated
// linearly, which smooths the picture and not the data.
func (m Map) WritePNG(w io.Writer) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("draw map %q: %w", m.Title, err)
	}
	s, err := newScale(m.Scheme, m.Values)
	if err != nil {
		return fmt.Errorf("draw map %q: %w", m.Title, err)
	}
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(mapWidth, mapHeight), vgimg.UseDPI(mapDPI))}
	page := draw.New(canvas)

	p := plot.New()
	m.axes(p)
	p.Add(plotter.NewImage(m.raster(s), -180, -90, 180, 90), graticule{})
	frame := draw.Crop(page, vg.Points(12), -barRoom, footRoom, -vg.Points(6))
	p.Draw(frame)

	drawBar(page, p.DataCanvas(frame), s, m)
	page.FillText(style(8, color.Gray{Y: 0x70}, text.XLeft, text.YBottom), vg.Point{X: page.Min.X + vg.Points(8), Y: page.Min.Y + vg.Points(6)}, m.Source)
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write map %q: %w", m.Title, err)
	}
	return nil
}

func (m Map) check() error {
	if len(m.Values) != m.Grid.Points() {
		return fmt.Errorf("%d values on a grid of %d x %d points", len(m.Values), len(m.Grid.Lat), len(m.Grid.Lon))
	}
	if !spans(m.Grid.Lat, 90, -180) || !spans(m.Grid.Lon, 0, 360-360/float64(len(m.Grid.Lon))) {
		return fmt.Errorf("the grid is not global and regular, from 90 north and 0 east")
	}
	return nil
}

// spans says whether x rises in equal steps from first by length.
func spans(x []float64, first, length float64) bool {
	if len(x) < 2 {
		return false
	}
	for i, v := range x {
		if math.Abs(v-first-length*float64(i)/float64(len(x)-1)) > 1e-6 {
			return false
		}
	}
	return true
}

func (m Map) axes(p *plot.Plot) {
	p.Title.Text = m.Title
	p.Title.TextStyle = style(14, color.Black, text.XCenter, text.YTop)
	p.Title.Padding = vg.Points(8)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Padding = 0
		a.LineStyle.Width = vg.Points(0.8)
		a.Tick.Label.Font = sans(10)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -180, 180, -90, 90
	p.X.Tick.Marker = degrees("W", "E", 180)
	p.Y.Tick.Marker = degrees("S", "N", 90)
}

func degrees(negative, positive string, limit int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for d := -limit; d <= limit; d += 30 {
		label := strconv.Itoa(max(d, -d)) + "°"
		switch {
		case d < 0 && d > -180:
			label += negative
		case d > 0 && d < 180:
			label += positive
		}
		ticks = append(ticks, plot.Tick{Value: float64(d), Label: label})
	}
	return ticks
}

// raster colours a picture of the whole globe, 180 west to 180 east, and draws
// the lines between classes: where a pixel's class differs from its neighbour's.
// (plotter.Contour of gonum v0.17.0 panics where grid values equal a level, as
// shares of members do.)
func (m Map) raster(s scale) image.Image {
	const width, height = 360 * pixelsPerDegree, 180 * pixelsPerDegree
	const missing = -1
	classes := make([]int, width*height)
	for i := range classes {
		lat, lon := 90-(float64(i/width)+0.5)/pixelsPerDegree, (float64(i%width)+0.5)/pixelsPerDegree-180
		if v := m.at(lat, lon); math.IsNaN(v) {
			classes[i] = missing
		} else {
			classes[i] = s.class(v)
		}
	}
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i, class := range classes {
		c := color.NRGBA{R: 0xb0, G: 0xb0, B: 0xb0, A: 0xff}
		if class != missing {
			c = s.colors[class]
		}
		if i%width+1 < width && classes[i+1] != class || i+width < len(classes) && classes[i+width] != class {
			c.R, c.G, c.B = c.R/2, c.G/2, c.B/2
		}
		img.SetNRGBA(i%width, i/width, c)
	}
	return img
}

// at interpolates bilinearly; the globe closes at the last column.
func (m Map) at(lat, lon float64) float64 {
	rows, cols := len(m.Grid.Lat), len(m.Grid.Lon)
	y := (90 - lat) / 180 * float64(rows-1)
	x := math.Mod(lon+360, 360) / 360 * float64(cols)
	r, c := min(int(y), rows-2), min(int(x), cols-1)
	fy, fx := y-float64(r), x-float64(c)
	next := (c + 1) % cols
	north := m.Values[r*cols+c]*(1-fx) + m.Values[r*cols+next]*fx
	south := m.Values[(r+1)*cols+c]*(1-fx) + m.Values[(r+1)*cols+next]*fx
	return north*(1-fy) + south*fy
}

// graticule draws meridians and parallels every 30 degrees, the equator thicker.
type graticule struct{}

func (graticule) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	line := draw.LineStyle{Color: color.NRGBA{R: 0x30, G: 0x30, B: 0x30, A: 0x90}, Width: vg.Points(0.5), Dashes: []vg.Length{vg.Points(1), vg.Points(3)}}
	for lon := -150.0; lon <= 150; lon += 30 {
		c.StrokeLine2(line, x(lon), c.Min.Y, x(lon), c.Max.Y)
	}
	for lat := -60.0; lat <= 60; lat += 30 {
		l := line
		if lat == 0 {
			l.Dashes = nil
		}
		c.StrokeLine2(l, c.Min.X, y(lat), c.Max.X, y(lat))
	}
	frame := draw.LineStyle{Color: color.Black, Width: vg.Points(0.8)}
	c.StrokeLines(frame, []vg.Point{{X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}})
}

// drawBar draws the classes beside the map, with a point at an end that is open:
// where values lie beyond the last bound.
func drawBar(page, data draw.Canvas, s scale, m Map) {
	lowest, highest := len(s.bounds), 0
	for _, v := range m.Values {
		if !math.IsNaN(v) {
			lowest, highest = min(lowest, s.class(v)), max(highest, s.class(v))
		}
	}
	left, right := data.Max.X+vg.Points(14), data.Max.X+vg.Points(28)
	tip := vg.Points(12)
	bottom, top := data.Min.Y+tip, data.Max.Y-tip-vg.Points(14)
	height := (top - bottom) / vg.Length(len(s.bounds)-1)
	edge := draw.LineStyle{Color: color.Gray{Y: 0x40}, Width: vg.Points(0.5)}
	box := func(class int, corners ...vg.Point) {
		page.FillPolygon(s.colors[class], corners)
		page.StrokeLines(edge, append(corners, corners[0]))
	}
	for i := range s.bounds {
		y := bottom + height*vg.Length(i)
		if i > 0 {
			box(i, vg.Point{X: left, Y: y - height}, vg.Point{X: right, Y: y - height}, vg.Point{X: right, Y: y}, vg.Point{X: left, Y: y})
		}
		page.FillText(style(10, color.Black, text.XLeft, text.YCenter), vg.Point{X: right + vg.Points(5), Y: y}, label(s.bounds, i))
	}
	middle := (left + right) / 2
	if lowest == 0 {
		box(0, vg.Point{X: left, Y: bottom}, vg.Point{X: right, Y: bottom}, vg.Point{X: middle, Y: bottom - tip})
	}
	if highest == len(s.bounds) {
		box(highest, vg.Point{X: left, Y: top}, vg.Point{X: right, Y: top}, vg.Point{X: middle, Y: top + tip})
	}
	page.FillText(style(10, color.Black, text.XLeft, text.YTop), vg.Point{X: left, Y: data.Max.Y}, m.Units)
}

// label writes a bound with the decimals that tell it from its neighbour.
func label(bounds []float64, i int) string {
	step := bounds[1] - bounds[0]
	decimals := 0
	for ; decimals < 6 && math.Abs(step-math.Round(step)) > 1e-6; decimals++ {
		step *= 10
	}
	return strconv.FormatFloat(bounds[i]+0, 'f', decimals, 64)
}

func style(size vg.Length, c color.Color, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{Color: c, Font: sans(size), XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}
