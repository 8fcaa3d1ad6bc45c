package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// What tasks wrote down becomes the story of a murder: times are in seconds since it.
func TestStory(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		want values
	}{
		"the lost task ran again with a new process": {"start 0 7 100\nstart 1 8 100\nend 0 7 200\nstart 2 7 300\nstart 1 9 2000000500\nstart 3 9 3000000500\n", values{"again": 1, "rerun": 2, "full": 2}},
		"with one that was there":                    {"start 0 7 100\nstart 1 8 100\nend 0 7 200\nstart 2 7 300\nstart 1 7 1000000500\nstart 3 7 3000000500\n", values{"again": 1, "rerun": 1}},
		"it did not run again":                       {"start 0 7 100\nstart 1 8 100\nstart 2 9 1000000500\nstart 3 7 2000000500\nsta", values{"again": 0, "full": 1}},
	} {
		m := murder{path: filepath.Join(t.TempDir(), "log"), victim: 8, lost: 1, when: 500}
		if err := os.WriteFile(m.path, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := m.story(4); err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if err := os.WriteFile(m.path, []byte("start 1 x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.story(4); err == nil {
			t.Errorf("%s: a broken line was read", name)
		}
	}
	if got, err := (&murder{}).story(4); err == nil {
		t.Errorf("without a murder: %v", got)
	}
}
