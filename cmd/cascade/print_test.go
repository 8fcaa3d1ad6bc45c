package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

type numbered struct {
	Name string `json:"name"`
	Size uint64 `json:"size"`
}

// However many rows there are, no more than a block is held, and what was written
// before the next is asked for.
func TestTableHoldsABlock(t *testing.T) {
	const n = 10*gridRows + 7
	for _, inJSON := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{out: &out, json: inJSON}
		most, lines := 0, 0
		err := tableOf(a, func(yield func(*numbered, error) bool) {
			for i := range n {
				lines += bytes.Count(out.Next(out.Len()), []byte("\n"))
				if most = max(most, i+1-lines); !yield(&numbered{"x", uint64(i)}, nil) {
					return
				}
			}
		}, "name", "size")
		lines += bytes.Count(out.Bytes(), []byte("\n"))
		want := n
		if !inJSON {
			want++ // the names of the columns
		}
		// What the writer holds besides is some pages of text.
		if err != nil || lines != want || most > gridRows+64<<10/len("x  0B\n") {
			t.Errorf("json %v: %d lines, %d rows held at most, %v", inJSON, lines, most, err)
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	broken := errors.New("the link broke")
	err := tableOf(a, func(yield func(*numbered, error) bool) {
		_ = yield(&numbered{"märz", 1}, nil) && yield(&numbered{"", 2048}, nil) && yield(nil, broken)
	}, "name", "size")
	if want := "NAME  SIZE\nmärz  1B\n-     2KiB\n"; out.String() != want || !errors.Is(err, broken) {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	out.Reset()
	if err := table(a, []textCells{{"", "b"}, {"long", ""}}, "error", "detail"); err != nil || out.String() != "ERROR  DETAIL\n       b\nlong\n" {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	if strings.Contains(out.String(), " \n") {
		t.Error("there are spaces at the ends of lines")
	}
}

type textCells struct {
	Error  string `json:"error"`
	Detail string `json:"detail"`
}

func TestCoreText(t *testing.T) {
	for n, want := range map[float64]string{0.5: "0.5 cores", 1: "1 core", 2: "2 cores"} {
		if got := coreText(n); got != want {
			t.Errorf("%g: %q, want %q", n, got, want)
		}
	}
}
