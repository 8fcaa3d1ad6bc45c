package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cascade-run/cascade/tune/core"
)

// File is the name of a journal in the folder of its experiment.
const File = "journal.jsonl"

// Record is one line.
type Record struct {
	N     int64         `json:"n"` // from 1, without gaps
	Event core.Event    `json:"event"`
	Do    []core.Action `json:"do,omitempty"` // without those that are derived from the event
}

// ErrBusy says that another process writes the journal.
var ErrBusy = errors.New("another process runs this experiment")

// Writer appends to a journal. One process has it open, and one goroutine uses it.
type Writer struct {
	file *os.File
	next int64
	buf  bytes.Buffer
}

// Open opens the journal of a folder for writing, or makes one, and calls each for the records that it has.
func Open(folder string, each func(*Record) error) (*Writer, error) {
	path := filepath.Join(folder, File)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	w := &Writer{file: f, next: 1}
	if err := w.open(path, each); err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

func (w *Writer) open(path string, each func(*Record) error) error {
	if err := lock(w.file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	end, n, err := read(w.file, path, each)
	if err != nil {
		return err
	}
	w.next = n + 1
	if err := w.file.Truncate(end); err != nil {
		return fmt.Errorf("cut off the line that is not whole: %w", err)
	}
	if _, err := w.file.Seek(end, io.SeekStart); err != nil {
		return fmt.Errorf("find the end of the journal: %w", err)
	}
	return nil
}

// Read calls each for the records of a folder's journal, also while another process writes it.
func Read(folder string, each func(*Record) error) error {
	path := filepath.Join(folder, File)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer f.Close()
	_, _, err = read(f, path, each)
	return err
}

// Busy tells whether a process writes the journal of a folder.
func Busy(folder string) (bool, error) {
	path := filepath.Join(folder, File)
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("open the journal: %w", err)
	}
	defer f.Close()
	is, err := busy(f)
	if err != nil {
		return false, fmt.Errorf("ask whether a process writes %s: %w", path, err)
	}
	return is, nil
}

// read returns where the last whole line ends, and its number.
func read(f io.Reader, path string, each func(*Record) error) (end, n int64, err error) {
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, n, nil // what is left is not whole
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read %s: %w", path, err)
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return 0, 0, fmt.Errorf("%s:%d: the line is damaged: %w", path, n+1, err)
		}
		if r.N != n+1 {
			return 0, 0, fmt.Errorf("%s:%d: the line has number %d: lines are missing", path, n+1, r.N)
		}
		n = r.N
		end += int64(len(line))
		if err := each(&r); err != nil {
			return 0, 0, fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}

// Add puts an event and its actions behind the others. They are durable when Sync has returned.
func (w *Writer) Add(e *core.Event, actions []core.Action) error {
	r := Record{N: w.next, Event: *e}
	for _, a := range actions {
		if !a.Kind.Derived() {
			r.Do = append(r.Do, a)
		}
	}
	line, err := json.Marshal(&r)
	if err != nil {
		return fmt.Errorf("write event %d, %s: %w", r.N, e.Kind, err)
	}
	w.next++
	w.buf.Write(line)
	w.buf.WriteByte('\n')
	return nil
}

// Sync writes what was added to the disk. After an error the journal takes nothing more.
func (w *Writer) Sync() error {
	if w.buf.Len() == 0 {
		return nil
	}
	if _, err := w.file.Write(w.buf.Bytes()); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	w.buf.Reset()
	if err := syncData(w.file); err != nil {
		return fmt.Errorf("write the journal to the disk: %w", err)
	}
	return nil
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }
