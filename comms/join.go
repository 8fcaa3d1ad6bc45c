package comms

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cascade-run/cascade/comms/pki"
)

// joinMax bounds the one message in each direction of a join, in bytes.
const joinMax = 16 << 10

// joinTimeout bounds a join as a whole, handshakes included.
const joinTimeout = 10 * time.Second

// JoinCluster makes the caller a member named name of the cluster that listens at
// address, HOST:PORT, by a token. The exchange is a ZMTP connection over TLS that
// carries Join, Joined and nothing else.
func JoinCluster(ctx context.Context, address string, t pki.Token, name string, as pki.Bearer, now func() time.Time) (*pki.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	m, err := exchange(ctx, address, t, name, as, now)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil { // the connection was closed for that
			err = errors.Join(cause, err)
		}
		return nil, fmt.Errorf("join the cluster at %s as %s: %w", address, name, err)
	}
	return m, nil
}

func exchange(ctx context.Context, address string, t pki.Token, name string, as pki.Bearer, now func() time.Time) (*pki.Member, error) {
	a, err := pki.Apply(ctx, address, t, name, as, now)
	if err != nil {
		return nil, err
	}
	defer a.Conn.Close()
	stop := context.AfterFunc(ctx, func() { a.Conn.Close() })
	defer stop()
	if err := openZMTP(a.Conn, false); err != nil {
		return nil, err
	}
	q := a.Application
	if err := writeOne(a.Conn, &Join{TokenID: q.TokenID, Secret: q.Secret, Name: q.Name, Request: q.Request, Bearer: string(q.Bearer)}); err != nil {
		return nil, fmt.Errorf("send the request: %w", err)
	}
	answer, err := readOne[*Joined](a.Conn)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case answer.Refusal != "":
		return nil, fmt.Errorf("refused: %s", answer.Refusal)
	}
	return a.Admitted(answer.Certificate)
}

// ServeJoin answers the program that wants to become a member on c, whose TLS
// handshake is done, and closes it. It returns the new member, or why there is none:
// for the audit.
func ServeJoin(c net.Conn, a *pki.Authority, r pki.Register, now func() time.Time) (pki.Identity, error) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(joinTimeout)); err != nil {
		return pki.Identity{}, fmt.Errorf("serve a join: %w", err)
	}
	if err := openZMTP(c, true); err != nil {
		return pki.Identity{}, fmt.Errorf("serve a join: %w", err)
	}
	m, err := readOne[*Join](c)
	if err != nil {
		return pki.Identity{}, fmt.Errorf("serve a join: read the request: %w", err)
	}
	q := &pki.Application{TokenID: m.TokenID, Secret: m.Secret, Name: m.Name, Request: m.Request, Bearer: pki.Bearer(m.Bearer)}
	id, certificate, err := pki.Admit(q, a, r, now())
	if err != nil {
		err = fmt.Errorf("refuse %q to join: %w", m.Name, err)
		return id, errors.Join(err, writeOne(c, &Joined{Refusal: pki.RefusalOf(err)}))
	}
	if err := writeOne(c, &Joined{Certificate: certificate}); err != nil {
		return id, fmt.Errorf("answer %s: %w", id, err)
	}
	return id, nil
}

// writeOne writes m as a message of one frame.
func writeOne(c net.Conn, m Message) error {
	b := Encode(m)
	if len(b) > joinMax {
		return fmt.Errorf("a message of %d bytes; at most %d are allowed", len(b), joinMax)
	}
	_, err := c.Write(append(appendFrameHeader(nil, 0, len(b)), b...))
	return err
}

// readOne reads a message of one frame, which must be an M.
func readOne[M Message](c io.Reader) (m M, err error) {
	r := frameReader{br: bufio.NewReader(io.LimitReader(c, 4*joinMax)), ping: func([]byte) {}} // a join ends before a peer could miss a PONG
	size, more, err := r.message(joinMax)
	if err != nil {
		return m, err
	}
	b, err := r.bytes(size)
	if err != nil {
		return m, err
	}
	decoded, err := Decode(b)
	if err != nil {
		return m, err
	}
	m, ok := decoded.(M)
	if !ok || more {
		return m, fmt.Errorf("%w: %s of more than one frame, or in place of %s", ErrMalformed, NameOf(decoded), NameOf(m))
	}
	return m, nil
}
