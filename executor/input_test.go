package executor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// inputWith is the parameters of an input, as an agent takes them from the graph.
func inputWith(t testing.TB, f dag.File) []byte {
	t.Helper()
	b := dag.NewBuilder("j")
	b.Input(dag.NewInput("x", f))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	fields, err := g.With(0)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	for _, f := range fields {
		m[f.Name] = f.Value
	}
	return with(t, m)
}

// An input is a dataset like the output of a function: in the message, in shared
// memory without a copy, or a file that a command can open.
func TestInputs(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 70_000) // 1.1 MB
	for _, c := range []struct {
		what  string
		bytes []byte
		file  bool // a command reads it
		gone  bool // from this host: the cluster keeps it
		place comms.PlaceKind
	}{
		{"small", []byte("winds\n"), false, false, comms.PlaceInline},
		{"large", large, false, false, comms.PlaceSegment},
		{"for a command", large, true, false, comms.PlaceSegment},
		{"kept and small", []byte("winds\n"), false, true, comms.PlaceInline},
		{"kept and large", large, false, true, comms.PlaceSegment},
		{"kept and for a command", large, true, true, comms.PlaceSegment},
		{"kept and empty", nil, false, true, comms.PlaceInline},
	} {
		t.Run(c.what, func(t *testing.T) {
			a, store := startWithStore(t, &Registry{})
			f := dag.File{Path: filepath.Join(t.TempDir(), "x"), SHA256: sumOf(c.bytes), Size: int64(len(c.bytes)), Kept: c.gone}
			if !c.gone {
				if err := os.WriteFile(f.Path, c.bytes, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			kind := a.kind(dag.InputFunction, nil, []string{dag.InputOutput}, func(k *comms.Kind) { k.Outputs[0].File = c.file })
			a.read(kind, f)
			if c.gone {
				a.keep(c.bytes)
			}
			it := a.items(1)[0]
			if it.Kind != comms.ReportFinished {
				t.Fatalf("ended with %+v", it.Error)
			}
			d := it.Outputs[0]
			if d.Place.Kind != c.place || d.Codec != "raw" || d.Size != uint64(len(c.bytes)) {
				t.Fatalf("dataset %+v", d)
			}
			if it.Usage.Copied > 0 {
				t.Errorf("%d bytes were copied", it.Usage.Copied)
			}
			got := d.Place.Bytes
			if d.Place.Kind == comms.PlaceSegment {
				got = store.bytes(d)
			}
			if !bytes.Equal(got, c.bytes) {
				t.Errorf("it holds %d bytes, want %d", len(got), len(c.bytes))
			}
		})
	}
}

// read dispatches a run that reads a file.
func (a *fakeAgent) read(kind uint32, f dag.File) comms.RunID {
	a.t.Helper()
	r := a.run(kind)
	r.With = inputWith(a.t, f)
	a.dispatch(r)
	return r.ID
}

// asked returns the next request for a piece of a blob; that a run has started may come before.
func (a *fakeAgent) asked() *comms.BlobReq {
	a.t.Helper()
	for {
		select {
		case m := <-a.inbox:
			if m, ok := m.(*comms.BlobReq); ok {
				return m
			}
			if m, ok := m.(*comms.Report); !ok || m.Items[0].Kind != comms.ReportStarted {
				a.t.Fatalf("executor sent %T %+v, want a request for a piece", m, m)
			}
		case <-time.After(patience):
			a.t.Fatal("executor asks for no piece")
		}
	}
}

// keep answers what the executor asks of the blobs that the controller keeps: the
// second piece first, and each twice.
func (a *fakeAgent) keep(b []byte) {
	a.t.Helper()
	pieces := (len(b) + blobPiece - 1) / blobPiece
	var waiting []*comms.BlobReq
	for asked := 0; asked < pieces || len(waiting) > 0; {
		if asked < pieces && len(waiting) < 2 {
			m := a.asked()
			if m.Offset+m.Max > uint64(len(b)) || m.Hash != comms.PackageHash(sumOf(b)) {
				a.t.Fatalf("asked for %+v of %d bytes", m, len(b))
			}
			waiting = append(waiting, m)
			asked++
			continue
		}
		m := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		for range 2 {
			a.exec.HandleBody(&comms.Blob{Hash: m.Hash, Offset: m.Offset, Total: uint64(len(b))}, b[m.Offset:m.Offset+m.Max])
		}
	}
}

// What the controller does not have, or has in another size, fails the task.
func TestInputIsNotKept(t *testing.T) {
	for _, c := range []struct {
		answer comms.Blob
		err    string
	}{
		{comms.Blob{Err: "the controller has no package: submit the job again"}, "submit the job again"},
		{comms.Blob{Total: 7}, "it has 7 bytes, and not 6"},
		{comms.Blob{Total: 6}, "a piece of 0 bytes at 0, which was not asked for"},
	} {
		a := startExecutor(t, &Registry{}, comms.Welcome{Scratch: t.TempDir()})
		kind := a.kind(dag.InputFunction, nil, []string{dag.InputOutput})
		a.read(kind, dag.File{Path: "/nowhere/x", SHA256: sumOf([]byte("winds\n")), Size: 6, Kept: true})
		m := a.asked()
		c.answer.Hash, c.answer.Offset = m.Hash, m.Offset
		a.exec.HandleBody(&c.answer, nil)
		it := a.items(1)[0]
		if it.Kind != comms.ReportFailed || it.Error.Kind != comms.ErrorTask || !strings.Contains(it.Error.Message, c.err) ||
			!strings.Contains(it.Error.Message, "open /nowhere/x: no such file or directory (on host)") {
			t.Errorf("ended with %+v", it.Error)
		}
		a.exec.HandleBody(&c.answer, nil) // late
	}
}

// A task that is cancelled while it waits for the controller ends.
func TestInputIsCancelled(t *testing.T) {
	a := startExecutor(t, &Registry{}, comms.Welcome{Scratch: t.TempDir()})
	kind := a.kind(dag.InputFunction, nil, []string{dag.InputOutput})
	run := a.read(kind, dag.File{Path: "/nowhere/x", SHA256: sumOf([]byte("winds\n")), Size: 6, Kept: true})
	m := a.asked()
	a.tell(&comms.Cancel{Run: run, Why: comms.ErrorCancelled, Text: "the job was cancelled"})
	if it := a.items(1)[0]; it.Kind != comms.ReportFailed || it.Error.Kind != comms.ErrorCancelled {
		t.Errorf("ended with %+v", it)
	}
	a.exec.HandleBody(&comms.Blob{Hash: m.Hash, Total: 6}, []byte("winds\n")) // late
}
