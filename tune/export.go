package tune

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"encoding/binary"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/space"
)

// Formats are what Export writes: "json" is a file result.json of lines for each trial, "csv" a file progress.csv,
// "tensorboard" a file of events.
var Formats = []string{"json", "csv", "tensorboard"}

// Export writes the results of each trial into a folder, in the trial's own. Files that are there are replaced.
func (g *Grid) Export(folder, format string) error {
	write, ok := map[string]struct {
		file string
		to   func(io.Writer, *Outcome, []core.Result) error
	}{
		"json": {"result.json", writeLines}, "csv": {"progress.csv", writeCSV}, "tensorboard": {"events.out.tfevents.0.cascade", writeEvents},
	}[format]
	if !ok {
		return noSuch("format", format, Formats)
	}
	for i := range g.Trials {
		o := &g.Trials[i]
		h, err := g.History(o.ID)
		if err != nil {
			return err
		}
		if len(h) == 0 {
			continue
		}
		dir := filepath.Join(folder, o.Name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := writeFile(filepath.Join(dir, write.file), func(w io.Writer) error { return write.to(w, o, h) }); err != nil {
			return fmt.Errorf("export trial %d: %w", o.ID, err)
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// row is a result as one map.
func row(o *Outcome, r *core.Result) core.Values {
	m := core.Values{"trial_id": o.Name, core.IterationKey: r.Iteration, core.TimeKey: r.Time}
	for k, v := range r.Metrics {
		m[k] = v
	}
	for k, v := range o.Config.Flat() {
		m["config/"+k] = v
	}
	return m
}

func writeLines(w io.Writer, o *Outcome, h []core.Result) error {
	e := json.NewEncoder(w)
	for i := range h {
		if err := e.Encode(row(o, &h[i])); err != nil {
			return err
		}
	}
	return nil
}

// writeCSV has a column for each value that any result has.
func writeCSV(w io.Writer, o *Outcome, h []core.Result) error {
	known := map[string]bool{}
	for i := range h {
		for k := range row(o, &h[i]) {
			known[k] = true
		}
	}
	columns := slices.Sorted(maps.Keys(known))
	c := csv.NewWriter(w)
	if err := c.Write(columns); err != nil {
		return err
	}
	for i := range h {
		m, line := row(o, &h[i]), make([]string, len(columns))
		for j, k := range columns {
			if v := m[k]; v != nil { // none, and null, are an empty field
				line[j] = core.Text(space.Exact(v))
			}
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// writeEvents writes the numbers of results as TensorBoard reads them: records of length, checksum, bytes, checksum,
// whose bytes are messages of protocol buffers.
func writeEvents(w io.Writer, _ *Outcome, h []core.Result) error {
	begun := float64(time.Now().Unix())
	if err := writeRecord(w, appendText(appendDouble(nil, 1, begun), 3, "brain.Event:2")); err != nil {
		return err
	}
	for i := range h {
		r := &h[i]
		var summary []byte
		for _, k := range slices.Sorted(maps.Keys(r.Metrics)) {
			x, ok := r.Value(k)
			if !ok {
				continue
			}
			value := appendText(nil, 1, k)
			value = binary.LittleEndian.AppendUint32(append(value, 2<<3|5), math.Float32bits(float32(x)))
			summary = appendText(summary, 1, string(value))
		}
		event := appendDouble(nil, 1, begun+r.Time)
		event = binary.AppendUvarint(append(event, 2<<3), uint64(r.Iteration))
		if err := writeRecord(w, appendText(event, 5, string(summary))); err != nil {
			return err
		}
	}
	return nil
}

func appendDouble(b []byte, field int, x float64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(field<<3|1)), math.Float64bits(x))
}

// appendText appends a field of bytes: a text or a message.
func appendText(b []byte, field int, text string) []byte {
	b = binary.AppendUvarint(append(b, byte(field<<3|2)), uint64(len(text)))
	return append(b, text...)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func masked(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

func writeRecord(w io.Writer, data []byte) error {
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b := binary.LittleEndian.AppendUint32(head, masked(head))
	b = append(b, data...)
	_, err := w.Write(binary.LittleEndian.AppendUint32(b, masked(data)))
	return err
}
