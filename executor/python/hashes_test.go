//go:build linux

package python_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/testing/pyenv"
)

// Equal values are equal bytes in processes of any hash seed; a dict keeps the order in which it was made.
func TestOrders(t *testing.T) {
	pyenv.Python(t)
	python, env := interpreter(t)
	of := func(seed string) string {
		return prints(t, ".", append(slices.Clone(env), "PYTHONHASHSEED="+seed), python, "testdata/orders.py")
	}
	first := of("1")
	if second := of("2"); first != second {
		t.Errorf("with the hash seed 2\n%s\nwith 1\n%s", second, first)
	}
	if strings.Contains(first, "WRONG") || strings.Count(first, "\n") < 10 {
		t.Error(first)
	}
}

// What lies in shared memory has the hash of its bytes, in whatever way they came there: up to
// 128 KiB, or all when the job says what is to be done about datasets that are made again.
func TestHashes(t *testing.T) {
	pyenv.Python(t)
	c := cascadetest.Start(t)
	var out strings.Builder
	for _, policy := range []string{"", "rebuilt: accept"} {
		var job strings.Builder
		var outputs []string
		fmt.Fprintf(&job, "job: hashes\n%s\nenvironments:\n  py: {python: {pip: [numpy]}, py_modules: [./hashes.py]}\ntasks:\n", policy)
		for _, n := range []int{4096, 4098, 128 << 10, 128<<10 + 2, 1 << 20} {
			for _, way := range []string{"text", "array", "strided", "square"} {
				fmt.Fprintf(&job, "  %s-%d: {run: \"py:hashes.%[1]s\", with: {n: %d}, out: [x]}\n", way, n, n)
				outputs = append(outputs, fmt.Sprintf("%s-%d.x", way, n))
			}
			fmt.Fprintf(&job, "  series-%d: {run: \"py:hashes.series\", with: {n: %[1]d}, generates: {x: 2}}\n", n)
			fmt.Fprintf(&job, "  file-%d: {run: \"py:hashes.text\", with: {n: %[1]d}, out: [x]}\n", n)
			fmt.Fprintf(&job, "  read-%d: {command: \"cmp ${in.x} ${in.y} > ${out.x}\", in: {x: file-%[1]d.x, y: array-%[1]d.x}, out: [x]}\n", n)
			outputs = append(outputs, fmt.Sprintf("\"series-%d.x[*]\"", n), fmt.Sprintf("file-%d.x", n), fmt.Sprintf("read-%d.x", n))
		}
		fmt.Fprintf(&job, "outputs: [%s]\n", strings.Join(outputs, ", "))
		j := submitText(t, c, "testdata/job", []byte(job.String()))
		if _, err := j.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		located, err := j.Locate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n", policy)
		of := map[string][]string{}
		for _, d := range located {
			if strings.HasPrefix(d.Name, "read-") {
				continue // an empty result of a command
			}
			hash := d.Desc.Hash.String()
			if hash == "" && d.Desc.Place.Kind != comms.PlaceInline {
				hash = "none"
			}
			line := fmt.Sprintf("%7d bytes: %s", d.Desc.Size, hash)
			of[line] = append(of[line], d.Name)
		}
		var lines []string
		for line, names := range of {
			slices.Sort(names)
			lines = append(lines, fmt.Sprintf("  %s\n    %s\n", line, strings.Join(names, " ")))
		}
		slices.Sort(lines)
		out.WriteString(strings.Join(lines, ""))
	}
	same(t, "testdata/hashes.golden", out.String())
}
