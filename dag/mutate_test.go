package dag

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMutatedFiles exchanges words of the job files in testdata, so that files
// are nearly right: each gives a graph that keeps its form, or problems.
func TestMutatedFiles(t *testing.T) {
	words := regexp.MustCompile(`[A-Za-z_]+|[0-9]+|\$\{|\.\.|[^\sA-Za-z0-9_]`)
	files, err := filepath.Glob("testdata/jobs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	more, err := filepath.Glob("testdata/mistakes/[rsv]*s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	pool := []string{"*", "-1", "0", "null", "true", "1.5", "99999999999", "''", "&a x", "*a", "~", "${", "}", "$", "[*]", "{}", "[]", "", "\n", "i", "params"}
	for _, f := range append(files, more...) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
		pool = append(pool, words.FindAllString(string(data), -1)...)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(rt, "file")
		for range rapid.IntRange(1, 4).Draw(rt, "changes") {
			at := words.FindAllStringIndex(text, -1)
			if len(at) == 0 {
				break
			}
			w := rapid.SampledFrom(at).Draw(rt, "place")
			text = text[:w[0]] + rapid.SampledFrom(pool).Draw(rt, "word") + text[w[1]:]
		}
		g, err := ParseYAML("job.yaml", []byte(text), Override{}, small)
		if err == nil {
			checkRoundTrip(rt, g)
			checkIndex(rt, g)
			return
		}
		var problems Problems
		if !errors.As(err, &problems) || len(problems) == 0 {
			rt.Fatalf("error without problems: %v", err)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Line > 1+strings.Count(text, "\n") || p.Col < 1 || p.Message == "" || strings.Contains(p.Message, "%!") {
				rt.Fatalf("problem without place or message: %+v\n%s", p, text)
			}
		}
	})
}

// TestMutatedBytes changes single bytes of encoded graphs.
func TestMutatedBytes(t *testing.T) {
	var codes [][]byte
	for _, f := range []string{"testdata/jobs/ensemble.yaml", "testdata/jobs/stream.yaml"} {
		codes = append(codes, load(t, f).Encode())
	}
	rapid.Check(t, func(rt *rapid.T) {
		code := append([]byte{}, rapid.SampledFrom(codes).Draw(rt, "graph")...)
		for range rapid.IntRange(1, 3).Draw(rt, "changes") {
			code[rapid.IntRange(0, len(code)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		}
		g, err := DecodeWith(code, small)
		if err != nil {
			return
		}
		checkRoundTrip(rt, g)
		checkIndex(rt, g)
	})
}
