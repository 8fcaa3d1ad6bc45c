package outfile

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

func TestPaths(t *testing.T) {
	var tests []struct {
		To                   string
		Names, Missing, Want []string
	}
	b, err := os.ReadFile("testdata/outputs.json") // the Python client has these tests, too
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &tests); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		var places []Place
		for _, name := range tt.Names {
			places = append(places, Place{name, tt.To})
		}
		if got := Paths("/job", places, tt.Missing); !slices.Equal(got, tt.Want) {
			t.Errorf("%s to %s: %s, want %s", tt.Names, tt.To, got, tt.Want)
		}
	}
}

// FuzzFileNames: no two datasets of a family have one file.
func FuzzFileNames(f *testing.F) {
	f.Add("a/b", "a_b")
	f.Add("a%2Fb", "a/b")
	f.Add("[a]", "-a")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == b {
			t.Skip()
		}
		places := []Place{{"t[" + a + "].y", "o/"}, {"t[" + b + "].y", "o/"}}
		if got := Paths("/job", places, nil); got[0] == got[1] {
			t.Errorf("%q and %q both go to %s", a, b, got[0])
		}
	})
}
