package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/journal"
)

func fill(t *testing.T, folder string, n int) {
	t.Helper()
	w, err := journal.Open(folder, func(*journal.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range n {
		e := core.Event{Kind: core.Reported, Seq: i + 1, Results: []core.Result{{Iteration: int64(i), Metrics: core.Values{"m": 1.5}}}}
		if err := w.Add(&e, []core.Action{{Kind: core.Tell}, {Kind: core.Go, Credit: &core.Credit{Reports: 3}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
}

func count(folder string) (n int, err error) {
	err = journal.Read(folder, func(r *journal.Record) error {
		n++
		if len(r.Do) != 1 || r.Do[0].Credit.Reports != 3 || r.Event.Results[0].Metrics["m"] != 1.5 {
			return errors.New("it is another record")
		}
		return nil
	})
	return n, err
}

// TestCutOff cuts a journal at each byte: the whole lines are read, and the next ones follow them.
func TestCutOff(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, journal.File)
	fill(t, folder, 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(whole[:cut]), "\n")
		fill(t, folder, 1)
		if n, err := count(folder); err != nil || n != lines+1 {
			t.Fatalf("cut at %d: %d records, %v, want %d", cut, n, err, lines+1)
		}
	}
}

// TestDamage names the line that is damaged or missing, and the process that writes.
func TestDamage(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, journal.File)
	fill(t, folder, 3)
	whole, _ := os.ReadFile(path)
	lines := strings.SplitAfter(string(whole), "\n")
	for text, want := range map[string]string{
		lines[0] + "garbage\n" + lines[2]: File(path, 2) + ": the line is damaged",
		lines[0] + lines[2]:               File(path, 2) + ": the line has number 3: lines are missing",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := count(folder); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	other := t.TempDir()
	w, err := journal.Open(other, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := journal.Open(other, nil); !errors.Is(err, journal.ErrBusy) {
		t.Errorf("a second writer: %v", err)
	}
}

// File is a place in a file.
func File(path string, line int) string { return path + ":" + string(rune('0'+line)) }
