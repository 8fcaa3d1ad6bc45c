package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sbinet/npyio/npy"
)

// Archive is the ERA5 ensemble as the example keeps it: packed codes of the
// shape [time][level][field][member][lat][lon] and what they mean. It does not
// change after Open; any goroutine may read it.
type Archive struct {
	Meta
	codes []uint16
}

// Meta is the archive's sidecar: coordinates, units, packing and attribution.
type Meta struct {
	Attribution string      `json:"attribution"`
	Times       []time.Time `json:"times"`
	Levels      []int       `json:"levels"` // hPa
	Fields      []Field     `json:"fields"`
	Members     []int       `json:"members"`
	Grid
	Reference []float64 `json:"reference"` // value = reference + code * scale,
	Scale     []float64 `json:"scale"`     // both for each [time][level][field][member]
}

// Field describes one physical quantity.
type Field struct {
	Name     string `json:"name"` // short name, as in job files
	LongName string `json:"long_name"`
	Units    string `json:"units"`
}

// Open reads the .npy file at path and its sidecar, the file beside it that ends
// in .json instead.
func Open(path string) (*Archive, error) {
	meta, err := ReadMeta(sidecar(path))
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	codes, err := decodeNPY(raw, meta.shape())
	if err != nil {
		return nil, fmt.Errorf("open archive %s: %w", path, err)
	}
	return &Archive{Meta: *meta, codes: codes}, nil
}

// ReadMeta reads the sidecar of an archive.
func ReadMeta(path string) (*Meta, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read archive's description: %w", err)
	}
	var m Meta
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("read archive's description %s: %w", path, err)
	}
	fields := len(m.Times) * len(m.Levels) * len(m.Fields) * len(m.Members)
	if fields == 0 || m.Points() == 0 {
		return nil, fmt.Errorf("read archive's description %s: an axis is empty or missing", path)
	}
	if len(m.Reference) != fields || len(m.Scale) != fields {
		return nil, fmt.Errorf("read archive's description %s: %d references and %d scales for %d fields", path, len(m.Reference), len(m.Scale), fields)
	}
	return &m, nil
}

func (m *Meta) shape() []int {
	return append([]int{len(m.Times)}, m.StepShape()...)
}

// StepShape returns the shape of one step: levels, fields, members, rows, columns.
func (m *Meta) StepShape() []int {
	return []int{len(m.Levels), len(m.Fields), len(m.Members), len(m.Lat), len(m.Lon)}
}

// StepLen returns the number of values of one step.
func (m *Meta) StepLen() int {
	return len(m.Levels) * len(m.Fields) * len(m.Members) * m.Points()
}

// FieldNamed returns the field of that name.
func (m *Meta) FieldNamed(name string) (Field, error) {
	for _, f := range m.Fields {
		if f.Name == name {
			return f, nil
		}
	}
	return Field{}, fmt.Errorf("field %q is not in the archive, it has %v", name, m.fieldNames())
}

// Select returns the members of one level and field of a step, shape
// [member][lat][lon], without copying.
func (m *Meta) Select(step []float64, level int, field string) ([]float64, error) {
	if len(step) != m.StepLen() {
		return nil, fmt.Errorf("select from step: %d values, want %v", len(step), m.StepShape())
	}
	l, f := slices.Index(m.Levels, level), slices.Index(m.fieldNames(), field)
	if l < 0 {
		return nil, fmt.Errorf("level %d hPa is not in the archive, it has %v", level, m.Levels)
	}
	if f < 0 {
		return nil, fmt.Errorf("field %q is not in the archive, it has %v", field, m.fieldNames())
	}
	size := len(m.Members) * m.Points()
	at := (l*len(m.Fields) + f) * size
	return step[at : at+size : at+size], nil
}

func (m *Meta) fieldNames() []string {
	names := make([]string, len(m.Fields))
	for i, f := range m.Fields {
		names[i] = f.Name
	}
	return names
}

// Step decodes step i of time into dst, which has StepLen values.
func (a *Archive) Step(dst []float64, i int) error {
	if i < 0 || i >= len(a.Times) {
		return fmt.Errorf("step %d is not in the archive, it has %d", i, len(a.Times))
	}
	if len(dst) != a.StepLen() {
		return fmt.Errorf("decode step %d: room for %d values, want %v", i, len(dst), a.StepShape())
	}
	points := a.Points()
	perStep := len(dst) / points
	for k := range perStep {
		reference, scale := a.Reference[i*perStep+k], a.Scale[i*perStep+k]
		codes := a.codes[(i*perStep+k)*points:][:points]
		for p, code := range codes {
			dst[k*points+p] = reference + float64(code)*scale
		}
	}
	return nil
}

// cut leaves the first steps of time only; codes beyond them stay unread.
func (m *Meta) cut(steps int) error {
	if steps < 1 || steps > len(m.Times) {
		return fmt.Errorf("%d steps of the archive: it has %d", steps, len(m.Times))
	}
	fields := steps * m.StepLen() / m.Points()
	m.Times, m.Reference, m.Scale = m.Times[:steps], m.Reference[:fields], m.Scale[:fields]
	return nil
}

func sidecar(path string) string { return strings.TrimSuffix(path, ".npy") + ".json" }

// decodeNPY checks what npyio does not: that the shape is the expected one and
// that the file holds all of it (npyio reads a short file as zeros).
func decodeNPY(raw []byte, shape []int) (codes []uint16, err error) {
	defer func() {
		if p := recover(); p != nil { // npyio slices the header without looking
			codes, err = nil, fmt.Errorf("malformed npy header: %v", p)
		}
	}()
	rest := bytes.NewReader(raw)
	r, err := npy.NewReader(rest)
	if err != nil {
		return nil, err
	}
	d := r.Header.Descr
	if d.Type != "<u2" || d.Fortran || !slices.Equal(d.Shape, shape) {
		return nil, fmt.Errorf("holds %s of shape %v, the description says <u2 of shape %v", d.Type, d.Shape, shape)
	}
	n := 1
	for _, s := range shape {
		n *= s
	}
	if rest.Len() != 2*n {
		return nil, fmt.Errorf("%d bytes of data, want %d: the file is cut or damaged", rest.Len(), 2*n)
	}
	codes = make([]uint16, n)
	return codes, r.Read(&codes)
}
