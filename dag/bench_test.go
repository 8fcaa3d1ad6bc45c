package dag

import (
	"bytes"
	"fmt"
	"testing"
)

// literalJob is a job file of n tasks written out, each reading two earlier ones.
func literalJob(n int) []byte {
	var b bytes.Buffer
	b.WriteString("job: literal\ntasks:\n  t000000: {run: noop, out: [out]}\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  t%06d:\n    run: noop\n    in: {x: t%06d.out, y: t%06d.out}\n    out: [out]\n", i, i-1, i/2)
	}
	return b.Bytes()
}

func BenchmarkParse100k(b *testing.B) {
	text := literalJob(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseYAML("job.yaml", text, Override{}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode100k(b *testing.B) {
	g, err := ParseYAML("job.yaml", literalJob(100_000), Override{}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	code := g.Encode()
	b.ReportMetric(float64(len(code)), "bytes")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(code); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode100k(b *testing.B) {
	g, err := ParseYAML("job.yaml", literalJob(100_000), Override{}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		g.Encode()
	}
}

// millionJob has two groups of a million tasks, the second reads the first.
func millionJob() *Builder {
	b := NewBuilder("million")
	first := b.Add(Group{Name: "first", Axes: []Axis{Range("i", 0, 999_999)}, Run: Run{Function: "noop"}, Outputs: []OutputDecl{{Name: "out"}}})
	b.Add(Group{Name: "second", Axes: []Axis{Range("i", 0, 999_999)}, Run: Run{Function: "noop"}, Inputs: []InputDecl{One("x", first.Out("out", Expr("i")))}, Outputs: []OutputDecl{{Name: "out"}}})
	return b
}

func BenchmarkBuildMillion(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := millionJob().Build(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInputs(b *testing.B) {
	g, err := millionJob().Build()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 7919) % 1_000_000
		in, err := g.Inputs(TaskIndex(1_000_000 + i))
		if err != nil || len(g.Consumers(in[0].Sources[0].Task)) != 1 {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeRing is 200 groups of 32 tasks, each of which computes whom it reads.
func BenchmarkDecodeRing(b *testing.B) {
	job := NewBuilder("ring")
	axis := []Axis{Range("i", 0, 31)}
	outs := []OutputDecl{{Name: "out"}}
	last := job.Add(Group{Name: "s0", Axes: axis, Run: Run{Function: "noop"}, Outputs: outs})
	for s := 1; s < 200; s++ {
		from := []From{last.Out("out", Expr("(i+31)%32")), last.Out("out", Expr("i")), last.Out("out", Expr("(i+1)%32"))}
		last = job.Add(Group{Name: fmt.Sprintf("s%d", s), Axes: axis, Run: Run{Function: "noop"}, Outputs: outs, Inputs: []InputDecl{Many("x", from...)}})
	}
	g, err := job.Build()
	if err != nil {
		b.Fatal(err)
	}
	code := g.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(code); err != nil {
			b.Fatal(err)
		}
	}
}
