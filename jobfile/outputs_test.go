package jobfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

func TestCheckOutputs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"real", "in.txt", "job.yaml"} {
		var err error
		if filepath.Ext(name) == "" {
			err = os.Mkdir(filepath.Join(dir, name), 0o700)
		} else {
			err = os.WriteFile(filepath.Join(dir, name), nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": "real", "a.txt": "real/a.txt", "same.yaml": "job.yaml"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	long := "res/" + string(slices.Repeat([]byte("x"), 256))
	tests := []struct {
		name, first, second string // where a.y and b.y go
		want                string
	}{
		{"two files", "x", "y", ""},
		{"a file and a folder", "x", "y/", ""},
		{"a folder twice", "y/", "y/", ""},
		{"a device", "/dev/null", "x", ""},
		{"an open file", "/dev/stdout", "x", ""},
		{"through a link to a folder", "real/x", "link/x", "outputs a.y and b.y both go to the file DIR/link/x (give one of them another path)"},
		{"through a link to a file", "a.txt", "link/a.txt", "outputs a.y and b.y both go to the file DIR/link/a.txt (give one of them another path)"},
		{"by the dataset's name", "res/b.y", "res/", "outputs a.y and b.y both go to the file DIR/res/b.y (give one of them another path)"},
		{"a file and one below it", "p", "p/q", "output a.y goes to the file DIR/p, and output b.y into a folder of that name (give one of them another path)"},
		{"a file and one far below it", "p/q/r/", "./p", "output b.y goes to the file DIR/p, and output a.y into a folder of that name (give one of them another path)"},
		{"the job file", "job.yaml", "x", "output a.y would replace DIR/job.yaml, which is a file that this job is read from (choose another file)"},
		{"a link to the job file", "same.yaml", "x", "output a.y would replace DIR/same.yaml, which is a file that this job is read from (choose another file)"},
		{"an input", "x", "real/../in.txt", "output b.y would replace DIR/in.txt, which is input in of the job (choose another file)"},
		{"a long name", long, "x", "output a.y would have a file name of 256 bytes, more than 255 (give it a file name of its own, or shorten the loop's values)"},
		{"below a file", "in.txt/x", "x", "output a.y cannot be copied to in.txt/x: DIR/in.txt is no folder"},
		{"a folder as a file", "real", "x", "output a.y cannot be copied to real: DIR/real is a folder: end it with a slash, or name a file in it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := dag.ParseYAML("job.yaml", []byte(`{job: j, inputs: {in: {file: in.txt}}, tasks: {a: {command: "true > ${out.y}", out: [y]}, b: {command: "true > ${out.y}", out: [y]}}, outputs: [{from: a.y, to: "`+
				tt.first+`"}, {from: b.y, to: "`+tt.second+`"}]}`), dag.Override{}, dag.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := CheckOutputs(g, dir, filepath.Join(dir, "job.yaml")); err != nil {
				found, ok := err.(dag.Problems) //nolint:errorlint // it is not wrapped: its places are read
				if !ok || len(found) != 1 || found[0].Line == 0 {
					t.Fatalf("want one problem with its place: %v", err)
				}
				p := dag.Problem{Message: found[0].Message, Hint: found[0].Hint}
				got = plainDir(p.String(), dir)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func plainDir(text, dir string) string { return strings.ReplaceAll(text, dir, "DIR") }
