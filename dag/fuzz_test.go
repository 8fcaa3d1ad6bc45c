package dag

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// small keeps one fuzz input from expanding to a job that takes seconds.
var small = Options{MaxTasks: 5000, MaxEdges: 20000, MaxBytes: 1 << 16}

func seeds(f *testing.F) (texts [][]byte) {
	f.Helper()
	for _, pattern := range []string{"testdata/jobs/*.yaml", "testdata/mistakes/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			texts = append(texts, data)
		}
	}
	return texts
}

// FuzzParseYAML: any file gives a graph that keeps its form, or problems with a place.
func FuzzParseYAML(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := ParseYAML("job.yaml", text, Override{}, small)
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("error without problems: %v", err)
			}
			for _, p := range problems {
				if p.Message == "" || p.Line < 1 && len(problems) <= maxProblems {
					t.Fatalf("without place or message: %+v", p)
				}
			}
			return
		}
		exercise(t, g)
	})
}

// FuzzDecode: any bytes give a graph that keeps its form, or an error.
func FuzzDecode(f *testing.F) {
	for _, text := range seeds(f) {
		if g, err := ParseYAML("", text, Override{}, small); err == nil {
			f.Add(g.Encode())
		}
	}
	f.Add([]byte{0x97, 1})
	f.Add(bytes.Repeat([]byte{0x91}, 4096))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := DecodeWith(data, small)
		if err != nil {
			return
		}
		exercise(t, g)
	})
}

// exercise holds a graph against its printed and encoded forms, and asks every
// task for all that can be asked.
func exercise(t *testing.T, g *Graph) {
	checkRoundTrip(t, g)
	checkIndex(t, g)
	for n := range min(g.NumTasks(), 100) {
		i := TaskIndex(n)
		for _, ask := range []func(TaskIndex) error{
			func(i TaskIndex) error { _, err := g.With(i); return err },
			func(i TaskIndex) error { _, err := g.EnvVars(i); return err },
			func(i TaskIndex) error { _, err := g.Command(i); return err },
		} {
			if err := ask(i); err != nil && err.Error() == "" {
				t.Fatal("an error says nothing")
			}
		}
	}
}
