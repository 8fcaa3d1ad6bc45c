package dag

import (
	"fmt"
	"testing"
)

// A group is told once of each group that it reads from, however many the edges are.
func TestGroupsRead(t *testing.T) {
	g, err := ParseYAML("job.yaml", []byte(`
job: j
tasks:
  a: {for: {i: "0..99"}, run: f, out: [x, y]}
  b: {for: {i: "0..99"}, run: f, in: {x: "a[*].x", y: "a[*].y", own: "a[${i}].x"}, out: [z], generates: {part: 3}}
  gen: {run: f, in: {z: "b[*].z", part: "b[*].part[*]"}, generates: {part: "*"}}
  each: {for: {p: "gen.part[*]", k: "0..1"}, run: f, in: {x: "gen.part[${p}]", all: "a[*].x"}, out: [y]}
  none: {for: {i: []}, run: f, in: {x: "a[${i}].x"}, out: [y]}
  last: {run: f, in: {y: "each[*,*].y", z: ["b[*].z", "a[*].x", "gen.part[*]", "none[*].y"]}, out: [w]}
`), Override{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for gi, want := range []string{"[]", "[0]", "[1]", "[0 2]", "[]", "[0 1 2 3]"} {
		if got := fmt.Sprint(g.groupsRead(gi)); got != want {
			t.Errorf("%s reads from groups %s, want %s", g.Groups[gi].Name, got, want)
		}
	}
}
