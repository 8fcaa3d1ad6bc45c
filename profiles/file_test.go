package profiles

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFile(t *testing.T) {
	f := &File{Version: FileVersion, Profiles: []Entry{
		{Job: "j", Task: "a", Runs: 3, Seconds: 1.5, SecondsDeviation: 0.5, Bytes: 30, Outputs: map[string]float64{"x": 25}, Memory: 7, MemoryPeak: 9, MemoryRuns: 2, CPU: 1.5},
		{Function: "F", Runs: 1, Seconds: 4},
	}}
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseFile("p.json", b)
	if err != nil || !reflect.DeepEqual(f, again) {
		t.Fatalf("%s reads back as %+v, %v", b, again, err)
	}
	s := again.Snapshot()
	a := Signature{Job: "j", Group: "a"}
	if got, want := s.Predict(a), (Prediction{Seconds: 1.5, Spread: 0.5, Bytes: 30, Memory: 7, Peak: 9, Basis: BasisTask}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.Predict(Signature{"other", "b", "F"}); got.Seconds != 4 || got.Basis != BasisFunction {
		t.Errorf("%+v", got)
	}
	if x, y := s.Output(a, "x", 2), s.Output(a, "y", 2); x != 25 || y != 15 {
		t.Errorf("outputs of %g and %g bytes, want 25 and an equal part, 15", x, y)
	}
}

func TestFileMistakes(t *testing.T) {
	for _, c := range [][2]string{
		{`[]`, "it is no profile file"},
		{`{}`, "cascade_profiles is missing"},
		{`{"cascade_profiles": 2}`, "it has version 2, this program reads up to 1"},
		{`{"cascade_profiles": 1} x`, "something follows"},
		{`{"cascade_profiles": 1, "profiles": [{"job": "j", "task": "a", "runs": 1, "seconds": -1}]}`, `profiles[0] (task "a" of job "j"): seconds is -1`},
		{`{"cascade_profiles": 1, "profiles": [{"task": "a", "runs": 1, "outputs": {"x": 1e200}}]}`, `outputs.x is 1e+200`},
		{`{"cascade_profiles": 1, "profiles": [{"task": "a"}]}`, `runs is 0`},
		{`{"cascade_profiles": 1, "profiles": [{"task": "a\u0000", "runs": 1}]}`, `NUL`},
		{`{"cascade_profiles": 1, "profiles": [{"task": "a", "runs": 1}, {"task": "a", "runs": 1}]}`, `profiles[1] is about the same tasks as profiles[0]`},
	} {
		if _, err := ParseFile("p.json", []byte(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) || !strings.HasPrefix(err.Error(), "p.json: ") {
			t.Errorf("%s: %v, want %s", c[0], err, c[1])
		}
	}
}

// readBack writes a file and reads it again.
func readBack(t rapid.TB, f *File) *File {
	t.Helper()
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseFile("p.json", b)
	if err != nil {
		t.Fatalf("%v of %s", err, b)
	}
	return again
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`{"cascade_profiles": 1, "profiles": [{"job": "j", "task": "a", "runs": 1, "seconds": 2, "outputs": {"x": 1}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseFile("p.json", b)
		if err != nil {
			return
		}
		q := readBack(t, p)
		if len(q.Profiles) != len(p.Profiles) {
			t.Fatalf("%d profiles read back as %d", len(p.Profiles), len(q.Profiles))
		}
	})
}
