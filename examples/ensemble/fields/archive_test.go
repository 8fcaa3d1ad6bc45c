package fields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestArchiveRefusesDamage(t *testing.T) {
	good, err := os.ReadFile("../data/era5-ensemble.npy")
	if err != nil {
		t.Fatal(err)
	}
	edit := func(from, to string) []byte { return bytes.Replace(good, []byte(from), []byte(to), 1) }
	tests := []struct {
		name string
		npy  []byte
		want string
	}{
		{"cut", good[:len(good)-1], "the file is cut or damaged"},
		{"longer", append(good[:len(good):len(good)], 0), "the file is cut or damaged"},
		{"other shape", edit("(4, 2, 2, 10, 61, 120)", "(4, 2, 2, 10, 120, 61)"), "of shape [4 2 2 10 120 61]"},
		{"other type", edit("<u2", "<i2"), "holds <i2"},
		{"no header end", []byte("\x93NUMPY\x01\x00\x02\x00{}"), "malformed npy header"},
		{"empty", nil, "EOF"},
		{"not npy", []byte("GRIB...............7777"), "not a valid NumPy file format"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.npy")
			copyFile(t, "../data/era5-ensemble.json", filepath.Join(filepath.Dir(path), "a.json"))
			if err := os.WriteFile(path, tt.npy, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestDescriptionRefusesDamage(t *testing.T) {
	tests := []struct{ name, json, want string }{
		{"not json", "x", "invalid character"},
		{"empty", "{}", "an axis is empty or missing"},
		{"packing missing", `{"times":["2017-01-01T00:00:00Z"],"levels":[500],"fields":[{"name":"t"}],"members":[0],"lat":[0],"lon":[0]}`, "0 references and 0 scales for 1 fields"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.json")
			if err := os.WriteFile(path, []byte(tt.json), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadMeta(path); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := Open("nowhere.npy"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v for a missing file", err)
	}
}

func TestSelectAndStepRefuse(t *testing.T) {
	a := openArchive(t)
	step := make([]float64, a.StepLen())
	tests := []struct {
		name string
		err  func() error
		want string
	}{
		{"level", func() error { _, err := a.Select(step, 700, "t"); return err }, "level 700 hPa is not in the archive, it has [500 850]"},
		{"field", func() error { _, err := a.Select(step, 500, "q"); return err }, `field "q" is not in the archive, it has [z t]`},
		{"size", func() error { _, err := a.Select(step[1:], 500, "t"); return err }, "select from step: 292799 values, want [2 2 10 61 120]"},
		{"late step", func() error { return a.Step(step, 4) }, "step 4 is not in the archive, it has 4"},
		{"early step", func() error { return a.Step(step, -1) }, "step -1 is not in the archive, it has 4"},
		{"room", func() error { return a.Step(step[1:], 0) }, "decode step 0: room for 292799 values, want [2 2 10 61 120]"},
		{"field by name", func() error { _, err := a.FieldNamed("q"); return err }, `field "q" is not in the archive, it has [z t]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.err(); err == nil || err.Error() != tt.want {
				t.Fatalf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// The committed files are what derive/ makes of the GRIB file: the array byte for
// byte, the golden numbers up to the order in which a numpy build sums.
func TestDeriveAgain(t *testing.T) {
	if os.Getenv("CASCADE_TEST_DATA") == "" {
		t.Skip("CASCADE_TEST_DATA is not set to the folder of era5-levels-members.grib")
	}
	if out, err := exec.Command("python3", "-c", "import eccodes, numpy").CombinedOutput(); err != nil {
		t.Skipf("python3 cannot import eccodes and numpy (pip install -r derive/requirements.txt): %v: %s", err, out)
	}
	dir := t.TempDir()
	for script, arg := range map[string]string{"derive.py": dir, "golden.py": filepath.Join(dir, "golden.json")} {
		cmd := exec.Command("python3", "-B", "../derive/"+script, arg)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	for made, committed := range map[string]string{
		"era5-ensemble.npy":  "../data/era5-ensemble.npy",
		"era5-ensemble.json": "../data/era5-ensemble.json",
	} {
		a, err := os.ReadFile(filepath.Join(dir, made))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(committed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs from the committed file", made)
		}
	}
	sameNumbers(t, "golden", readJSON(t, filepath.Join(dir, "golden.json")), readJSON(t, "../testdata/golden.json"))
}

func readJSON(t *testing.T, path string) (v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func sameNumbers(t *testing.T, where string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			t.Fatalf("%s: got %v, want %v", where, got, want)
		}
		for k := range want {
			sameNumbers(t, where+"."+k, got[k], want[k])
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			t.Fatalf("%s: got %v, want %v", where, got, want)
		}
		for i := range want {
			sameNumbers(t, fmt.Sprintf("%s[%d]", where, i), got[i], want[i])
		}
	case float64:
		// Changes are differences of values up to 6e4: their errors are relative to those.
		if got, ok := got.(float64); !ok || math.Abs(got-want) > tolerance*math.Max(6e4, math.Abs(want)) {
			t.Errorf("%s: got %v, want %v", where, got, want)
		}
	default:
		if got != want {
			t.Errorf("%s: got %v, want %v", where, got, want)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
