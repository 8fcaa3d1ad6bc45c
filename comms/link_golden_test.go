package comms

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms/internal/session"
)

var updateLink = flag.Bool("update-link", false, "rewrite testdata/link.txt")

// TestLinkTranscript binds the bytes of the link protocol: another
// implementation must write what testdata/link.txt shows, or read it.
func TestLinkTranscript(t *testing.T) {
	w := newWire(nil)
	w.l = newLink(Config{Replay: true, QueueMessages: 2, QueueBytes: 1 << 20}, true, 0x1122334455667788)
	defer w.l.cancel()
	w.l.recv.Store(300)
	greeting := session.Greeting{ProtocolMin: 1, ProtocolMax: 1, Role: "agent", Name: "a1", Incarnation: 1_700_000_000, PID: 4711, Build: "v1",
		Features: []string{"x"}, Replay: true, Session: 0x1122334455667788, Resume: 0x99, MaxHead: 64 << 20, MaxBody: 64 << 20}
	alone := func(e session.Envelope) []byte {
		p := e.Append(nil)
		return append(appendFrameHeader(nil, 0, len(p)), p...)
	}
	batch := func(prepare func()) []byte {
		w.l.mu.Lock()
		defer w.l.mu.Unlock()
		prepare()
		w.fill()
		return bytes.Join(w.vec, nil)
	}
	push := func(head, body []byte) {
		if err := w.l.out.Push(head, body); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	for _, line := range []struct {
		name  string
		bytes []byte
	}{
		{"hello", alone(session.Envelope{Kind: session.Hello, Ack: 7, Greeting: &greeting})},
		{"welcome", alone(session.Envelope{Kind: session.Welcome, Ack: 300, Greeting: &greeting})},
		{"data, head alone", batch(func() { push([]byte("head"), nil) })},
		{"data, head and body, acknowledgement wanted", batch(func() { push([]byte("head"), []byte("body")) })},
		{"acknowledgement", batch(func() { w.l.ackSent, w.ackDue = 299, true })},
		{"ping", batch(func() { w.pingDue = true })},
		{"pong", batch(func() { w.earlyPing([]byte("ctx")) })},
		{"close", batch(func() { w.farewell = true })},
		{"refuse", alone(session.Envelope{Kind: session.Refuse, Text: "a newer process has that name"})},
	} {
		fmt.Fprintf(&got, "%s\n%s\n", line.name, hex.Dump(line.bytes))
	}
	const file = "testdata/link.txt"
	if *updateLink {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the wire has changed; if that is meant, raise LinkProtocolMax and run with -update-link:\n%s", got.String())
	}
}
