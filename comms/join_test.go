package comms

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms/pki"
)

// admitsNobody fails the test when a token gets as far as the register.
type admitsNobody struct {
	grantAll
	t *testing.T
}

func (a admitsNobody) Redeem([8]byte, [16]byte, string, pki.Bearer) (pki.Role, error) {
	a.t.Error("a token was redeemed")
	return "", errors.New("not here")
}

// Whatever arrives in place of a Join is refused before a token is looked at, and
// before memory of the claimed size is taken.
func TestServeJoinRefuses(t *testing.T) {
	frame := func(flags byte, b []byte) []byte { return append(appendFrameHeader(nil, flags, len(b)), b...) }
	for _, test := range []struct {
		name string
		sent []byte
		err  error
	}{
		{"a frame of 4 GiB", binary.BigEndian.AppendUint64([]byte{frameLong}, 1<<32), errFraming},
		{"another message", frame(0, Encode(&Renew{Req: 1})), ErrMalformed},
		{"two frames", frame(frameMore, Encode(&Join{Name: "a"})), ErrMalformed},
		{"no message", frame(0, []byte{0xc0}), ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			theirs, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Close()
			ours, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() {
				_, err := ServeJoin(ours, nil, admitsNobody{t: t}, time.Now)
				served <- err
			}()
			if err := openZMTP(theirs, false); err != nil {
				t.Fatal(err)
			}
			if _, err := theirs.Write(test.sent); err != nil {
				t.Fatal(err)
			}
			if err := <-served; !errors.Is(err, test.err) {
				t.Errorf("%v, want %v", err, test.err)
			}
		})
	}
}

// The one message of a join is read from any peer.
func FuzzJoin(f *testing.F) {
	f.Add(Encode(&Join{Name: "host-1"}))
	f.Add([]byte{0x04, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = readOne[*Join](bytes.NewReader(b)) // whatever it is, it ends with an error or a message
	})
}
