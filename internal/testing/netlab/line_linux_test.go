package netlab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// source gives a frame a Read, and says when each was read.
type source struct {
	frames []string
	read   []time.Time
}

func (s *source) Read(b []byte) (int, error) {
	n := len(s.read)
	if n == len(s.frames) {
		return 0, io.EOF
	}
	s.read = append(s.read, time.Now())
	return copy(b, s.frames[n]), nil
}

// sink takes a frame a Write, and fails by the errors that it has for some.
type sink struct {
	frames []string
	wrote  []time.Time
	errs   map[string]error
}

func (s *sink) Write(b []byte) (int, error) {
	if err := s.errs[string(b)]; err != nil {
		return 0, err
	}
	s.frames, s.wrote = append(s.frames, string(b)), append(s.wrote, time.Now())
	return len(b), nil
}

// Each frame comes, in order, and is held for the delay.
func TestCarry(t *testing.T) {
	const delay = 3 * time.Millisecond
	from, to := &source{}, &sink{}
	for i := range frames + 100 { // more than are held
		from.frames = append(from.frames, fmt.Sprint(i))
	}
	if err := carry(to, from, delay); err != nil {
		t.Fatal(err)
	}
	if len(to.frames) != len(from.frames) {
		t.Fatalf("%d frames came, want %d", len(to.frames), len(from.frames))
	}
	for i, f := range to.frames {
		if held := to.wrote[i].Sub(from.read[i]); f != from.frames[i] || held < delay {
			t.Fatalf("frame %d: %q came after %s, want %q after %s", i, f, held, from.frames[i], delay)
		}
	}
}

func TestCarryWhereWritesFail(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		came int
		want error
	}{
		{"the link is cut: the frame is lost", unix.EIO, 3, nil},
		{"the device is closed", os.ErrClosed, 1, nil},
		{"anything else is told", unix.ENOMEM, 1, unix.ENOMEM},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := &sink{errs: map[string]error{"b": c.err}}
			err := carry(to, &source{frames: []string{"a", "b", "c", "d"}}, 0)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || len(to.frames) != c.came {
				t.Errorf("%v after %q; want %v after %d frames", err, to.frames, c.want, c.came)
			}
		})
	}
}
