package dag

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestHostileFiles: files made to exhaust the reader end in problems.
func TestHostileFiles(t *testing.T) {
	for name, text := range map[string]string{
		"flow nesting":       "job: x\ntasks: " + strings.Repeat("[", 200_000),
		"map nesting":        "job: x\ntasks: " + strings.Repeat("{a: ", 200_000),
		"block nesting":      "job: x\nparams: " + strings.Repeat("- ", 100_000) + "x",
		"explicit keys":      "job: x\nparams: " + strings.Repeat("? ", 100_000) + "x",
		"long key":           "job: x\nparams: {" + strings.Repeat("k", 100_000) + ": 1}",
		"long expression":    "job: x\ntasks: {a: {run: A, with: {x: \"${" + strings.Repeat("(", 100_000) + "}\"}}}",
		"unary expression":   "job: x\ntasks: {a: {run: A, with: {x: \"${" + strings.Repeat("-", 1000) + "'a'}\"}}}",
		"recursive merge":    "job: x\ntasks: {a: &a {run: A, <<: *a}, a: 1}",
		"recursive tasks":    "job: x\ntasks: &a {a: *a}",
		"merge of merges":    "job: x\nparams: &a {<<: [*a, *a, *a, *a, *a, *a, *a, *a]}\ntasks: {a: {run: A}}",
		"alias tasks":        "job: x\nparams: {a: &t {" + repeated("k%d: {run: A}", 2000) + "}, b: {" + repeated("k%d: *t", 2000) + "}}\ntasks: {a: {run: A}}",
		"range of all":       "job: x\ntasks: {a: {for: {i: \"-9223372036854775808..9223372036854775807\"}, run: A}}",
		"wide range":         "job: x\ntasks: {a: {for: {i: \"0..2147483646\", j: \"0..2147483646\", k: \"0..2147483646\"}, run: A}}",
		"huge generator":     "job: x\ntasks: {a: {run: A, generates: {x: 9223372036854775807}}, b: {run: B, in: {x: \"a.x[*]\"}}}",
		"huge number":        "job: x\nparams: {a: " + strings.Repeat("9", 25) + "}\ntasks: {a: {run: A}}",
		"zero bytes":         "job: x\ntasks: {a: {run: \"A\x00\"}}",
		"escaped zero bytes": "job: x\nparams: {a: \"\\0\"}\ntasks: {a: {run: A}}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseYAML("job.yaml", []byte(text), Override{}, Options{})
			if !errors.As(err, new(Problems)) {
				t.Fatalf("no problems but %v", err)
			}
			if len(err.Error()) > 20_000 {
				t.Errorf("%d bytes of problems", len(err.Error()))
			}
			t.Logf("%.300s", err)
		})
	}
}

// TestManyMistakes: a report is bounded.
func TestManyMistakes(t *testing.T) {
	text := "job: x\ntasks:\n" + strings.ReplaceAll(repeated("  t%d: {run: A, in: {x: missing.o}}", 5000), ", ", "\n")
	text = strings.ReplaceAll(text, "\nin:", ", in:")
	_, err := ParseYAML("job.yaml", []byte(text), Override{}, Options{})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != maxProblems+1 || problems[maxProblems].Message != "and 4000 more problems" {
		t.Fatalf("%d problems, the last %v", len(problems), problems[len(problems)-1])
	}
}

// repeated joins n numbered pieces with commas.
func repeated(form string, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf(form, i)
	}
	return strings.Join(words, ", ")
}
