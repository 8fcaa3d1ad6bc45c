package dag

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/cascade-run/cascade/internal/near"
)

// Problem is one mistake in a job, with its place and how to fix it.
type Problem struct {
	File      string // as given to ParseYAML; "" for a graph built in code
	Line, Col int    // 1-based; 0 when there is no place in a file
	Message   string
	Hint      string // what to write instead; may be empty
}

// String prints "file:line:col: message (hint)", without the parts that are not known.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		b.WriteByte(':')
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Col)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Problems are all mistakes found in a job, sorted by place. It is never empty
// when returned as an error.
type Problems []Problem

// maxProblems bounds what one report holds; a generated file can repeat one mistake many times.
const maxProblems = 1000

// Error prints one problem per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sortProblems orders by file, place and text, drops repetitions and bounds the number.
func sortProblems(ps Problems) Problems {
	sort.SliceStable(ps, func(i, j int) bool {
		a, b := ps[i], ps[j]
		switch {
		case a.File != b.File:
			return a.File < b.File
		case a.Line != b.Line:
			return a.Line < b.Line
		case a.Col != b.Col:
			return a.Col < b.Col
		}
		return a.Line > 0 && a.Message < b.Message
	})
	ps = slices.Compact(ps)
	if len(ps) > maxProblems {
		more := len(ps) - maxProblems
		ps = append(ps[:maxProblems:maxProblems], Problem{File: ps[0].File, Message: fmt.Sprintf("and %d more problems", more)})
	}
	return ps
}

// hinted is an error that carries a hint for the Problem made from it.
type hinted struct{ message, hint string }

func (h *hinted) Error() string {
	if h.hint == "" {
		return h.message
	}
	return h.message + " (" + h.hint + ")"
}

func mistake(message, hint string) error { return &hinted{message, hint} }

// splitHint returns an error's text and its hint.
func splitHint(err error) (message, hint string) {
	var h *hinted
	if !errors.As(err, &h) {
		return err.Error(), ""
	}
	return strings.TrimSuffix(err.Error(), " ("+h.hint+")"), h.hint
}

// DidYouMean is the hint for a name that nothing has: `did you mean "x"?` for the
// one that is most like it, "" when none is.
func DidYouMean(name string, known []string) string { return nearest(name, known, "") }

// nearest returns `did you mean "x"?` for the closest candidate, or the fallback.
func nearest(word string, candidates []string, fallback string) string {
	if best := near.Name(word, candidates); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return fallback
}

func keysOf(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
