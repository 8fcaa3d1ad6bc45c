package comms

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// A transcript is a text file that a person reads and every implementation of
// the protocol is tested against. testdata/transcripts/README.md describes it.

// entry is one message of a transcript, or a line that is none.
type entry struct {
	line  int
	peers [2]string // '>' goes from the first to the second
	mark  byte      // '>', '<', '~', '!' ; 0: text is a comment or an empty line
	text  string    // behind the mark, possibly of several lines
	bytes []byte
	body  string // the line of a body frame, "" none
}

func readTranscript(path string) (entries []entry, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var peers [2]string
	open := false // the last entry takes more lines of text
	for i, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		last := &entry{}
		if len(entries) > 0 {
			last = &entries[len(entries)-1]
		}
		switch {
		case line == "" || line[0] == '#':
			open = false
			entries = append(entries, entry{line: i + 1, text: line})
			if rest, ok := strings.CutPrefix(line, "# peers: "); ok {
				a, b, ok := strings.Cut(rest, " ")
				if !ok {
					return nil, fmt.Errorf("%s:%d: want two peers", path, i+1)
				}
				peers = [2]string{a, b}
			}
		case strings.ContainsRune("><~!", rune(line[0])):
			open = true
			entries = append(entries, entry{line: i + 1, peers: peers, mark: line[0], text: strings.TrimSpace(line[1:])})
		case line[0] == '=' && last.mark != 0:
			open = false
			h, err := hex.DecodeString(strings.ReplaceAll(line[1:], " ", ""))
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
			}
			last.bytes = append(last.bytes, h...)
		case line[0] == '+' && last.mark != 0:
			open = false
			last.body = line
		case open:
			last.text += "\n" + line
		default:
			return nil, fmt.Errorf("%s:%d: %q belongs to no message", path, i+1, line)
		}
	}
	return entries, nil
}

func (e *entry) String() string {
	if e.mark == 0 {
		return e.text + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%c %s\n", e.mark, e.text)
	for part := range slices.Chunk(e.bytes, 48) {
		fmt.Fprintf(&b, "= %x\n", part)
	}
	if e.body != "" {
		b.WriteString(e.body + "\n")
	}
	return b.String()
}

func transcripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "schema.txt" })
	if len(files) == 0 {
		t.Fatal("no transcripts")
	}
	return files
}

func TestTranscripts(t *testing.T) {
	s := loadSchema(t)
	seen := map[Type]bool{}
	for _, path := range transcripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			entries, err := readTranscript(path)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for i := range entries {
				e := &entries[i]
				if m := check(t, s, path, e); m != nil {
					seen[m.Type()] = true
				}
				b.WriteString(e.String())
			}
			golden(t, path, b.String())
		})
	}
	for _, m := range s.messages {
		if !seen[m.number] {
			t.Errorf("no transcript has a %s", m.typ.Name())
		}
	}
}

// check compares text and bytes of one entry; with -update it brings the bytes
// of what Cascade writes itself in line with the text. It returns the message.
func check(t *testing.T, s *schema, path string, e *entry) Message {
	t.Helper()
	where := fmt.Sprintf("%s:%d", path, e.line)
	switch e.mark {
	case 0:
		return nil
	case '!':
		refused(t, where, e)
		return nil
	}
	r := textReader{s: s, rest: e.text}
	m, err := r.message()
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	v := reflect.ValueOf(m).Elem()
	e.text = v.Type().Name() + " " + texts{s}.print(v, 0, 8)
	if e.mark != '~' {
		checkWay(t, s, where, e, m)
		b := Encode(m)
		if *update {
			e.bytes = b
		}
		if string(e.bytes) != string(b) {
			t.Errorf("%s: encodes as\n%x, the transcript has\n%x", where, b, e.bytes)
		}
	}
	got, err := Decode(e.bytes)
	if err != nil {
		t.Errorf("%s: decode: %v", where, err)
		return m
	}
	if text := v.Type().Name() + " " + (texts{s}.print(reflect.ValueOf(got).Elem(), 0, 8)); text != e.text || got.Type() != m.Type() {
		t.Errorf("%s: decodes as\n%s", where, text)
	}
	return m
}

// checkWay checks that a message goes a way that the schema knows.
func checkWay(t *testing.T, s *schema, where string, e *entry, m Message) {
	t.Helper()
	way := route{e.peers[0], e.peers[1]}
	if e.mark == '<' {
		way = route{e.peers[1], e.peers[0]}
	}
	for _, info := range s.messages {
		if info.number == m.Type() && !slices.Contains(info.routes, way) {
			t.Errorf("%s: no %T goes from %s to %s", where, m, way.from, way.to)
		}
	}
}

// refused checks that bytes are refused for the reason that the text begins with.
func refused(t *testing.T, where string, e *entry) {
	t.Helper()
	_, err := Decode(e.bytes)
	var unknown *UnknownTypeError
	isUnknown := errors.As(err, &unknown)
	word, _, _ := strings.Cut(e.text, ":")
	ok := false
	switch word {
	case "truncated":
		ok = errors.Is(err, ErrTruncated)
	case "malformed":
		ok = errors.Is(err, ErrMalformed)
	case "unknown":
		ok = isUnknown && !unknown.MayIgnore()
	case "ignored":
		ok = isUnknown && unknown.MayIgnore()
	default:
		t.Fatalf("%s: want truncated, malformed, unknown or ignored, and why: %q", where, e.text)
	}
	if !ok {
		t.Errorf("%s: want %s, Decode says: %v", where, word, err)
	}
}

// The transcripts mean the same to a reader that shares no code with this
// package: a Python script that knows schema.txt and the document alone.
func TestTranscriptsInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CASCADE_REQUIRE_PYZMQ") != "" { // CI has it
			t.Fatal(err)
		}
		t.Skip("python3 is not there: the transcripts were not read by the second implementation")
	}
	out, err := exec.Command(python, append([]string{"testdata/transcripts/check.py"}, transcripts(t)...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("check.py: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}
