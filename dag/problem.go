package dag

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
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
	best, bestDist := "", 1+min(len(word)/3, 3)
	for _, c := range candidates {
		if d := distance(word, c, bestDist); d < bestDist {
			best, bestDist = c, d
		}
	}
	if best == "" {
		return fallback
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// distance is the optimal string alignment distance (Levenshtein with swaps of
// neighbours), or limit when it is not smaller.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > 256 || len(b) > 256 {
		return limit
	}
	var prev2 []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return min(prev[len(b)], limit)
}

func keysOf(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
