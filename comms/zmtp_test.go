package comms

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func frames(p []byte) *frameReader {
	return &frameReader{br: bufio.NewReaderSize(bytes.NewReader(p), 64), ping: func([]byte) {}}
}

func TestFramesTravel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire []byte
		var want [][]byte
		pings := 0
		for range rapid.IntRange(1, 8).Draw(t, "frames") {
			if rapid.Bool().Draw(t, "ping") {
				wire = appendPing(wire)
				pings++
			}
			body := bytes.Repeat([]byte{7}, rapid.SampledFrom([]int{0, 1, 60, 255, 256, 70_000, growStep, growStep + 1, 3*growStep + 5}).Draw(t, "size"))
			wire = append(appendFrameHeader(wire, frameMore, len(body)), body...)
			want = append(want, body)
		}
		seen := 0
		r := &frameReader{br: bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(wire)), 64), ping: func([]byte) { seen++ }}
		for i, w := range want {
			n, more, err := r.message(1 << 20)
			if err != nil || !more || n != len(w) {
				t.Fatalf("frame %d: %d bytes, more %t, %v", i, n, more, err)
			}
			read := r.bytes
			if rapid.Bool().Draw(t, "view") {
				read = r.view
			}
			if got, err := read(n); err != nil || !bytes.Equal(got, w) {
				t.Fatalf("frame %d: %d bytes, %v", i, len(got), err)
			}
		}
		if _, _, err := r.message(1); !errors.Is(err, io.EOF) || seen != pings {
			t.Fatalf("at the end: %v, %d of %d PINGs", err, seen, pings)
		}
	})
}

func TestFrameCutShort(t *testing.T) {
	whole := append(appendFrameHeader(nil, 0, 300), make([]byte, 300)...)
	for cut := 1; cut < len(whole); cut++ {
		r := frames(whole[:cut])
		n, _, err := r.message(1000)
		if err == nil {
			_, err = r.bytes(n)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("after %d bytes: %v", cut, err)
		}
	}
}

// FuzzFrames reads arbitrary bytes as frames. What is accepted must come out
// the same when it is written and read again.
func FuzzFrames(f *testing.F) {
	for _, a := range attacks() {
		f.Add(bytes.TrimPrefix(a, rawGreeting))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(p []byte) (out [][]byte) {
			r := frames(p)
			for {
				n, _, err := r.message(1 << 16)
				if err != nil {
					return out
				}
				b, err := r.bytes(n)
				if err != nil {
					return out
				}
				out = append(out, b)
			}
		}
		once := read(data)
		var wire []byte
		for _, b := range once {
			wire = append(appendFrameHeader(wire, 0, len(b)), b...)
		}
		again := read(wire)
		if len(again) != len(once) {
			t.Fatalf("%d frames became %d", len(once), len(again))
		}
		for i := range once {
			if !bytes.Equal(once[i], again[i]) {
				t.Fatalf("frame %d changed", i)
			}
		}
	})
}
