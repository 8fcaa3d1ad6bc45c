package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/cascade-run/cascade/internal/backoff"
)

// tries of one Get.
const tries = 4

// Client gets files. The zero value is ready. Its fields do not change while it gets;
// many may get with one Client at a time.
type Client struct {
	// Silence is how long a server may send nothing; 0 means a minute.
	Silence time.Duration
	// Pause bounds the wait before the second try, and doubles; 0 means two seconds.
	Pause time.Duration
	// Limit is how long all tries may take together; 0 means a day.
	Limit time.Duration
	// Log gets a line for each thing that is tried again; nil for no log.
	Log io.Writer
	// Transport carries requests; nil for one that ends with each Get.
	Transport http.RoundTripper

	random *rand.Rand // of a test, which draws the waits; nil: the source of the process
}

// File is what is meant by an address.
type File struct {
	URL    string // http or https
	SHA256 string // in hexadecimal; "" when the bytes are not known beforehand
	Size   int64  // bytes; 0 when the size is not known beforehand
	Most   int64  // bytes that are taken at most
}

// Got is what came.
type Got struct {
	Size   int64
	SHA256 string // in hexadecimal
}

// Take reads a body to its end, and keeps what it reads. size is in bytes, or -1 when
// the server does not say it. A Get calls it once for each try that brings a body: what
// it kept of the try before is void. An error of its own ends the Get; of body's errors
// Get knows itself which may pass.
type Take func(body io.Reader, size int64) error

// Get gives the bytes of f to take, and returns when they are all there and those that
// are meant. When ctx ends, the error is its cause; every other names the address.
func (c *Client) Get(ctx context.Context, f File, take Take) (Got, error) {
	limit, pauses := cmp.Or(c.Limit, 24*time.Hour), backoff.Backoff{First: cmp.Or(c.Pause, 2*time.Second), Longest: time.Hour, Steady: true, Rand: c.random}
	late := fmt.Errorf("it took longer than %v", limit)
	all, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	show := newShown(f.URL)
	for try := 1; ; try++ {
		got, err := c.once(all, f, take)
		if err == nil {
			return got, nil
		}
		var never *lasting
		switch {
		case ctx.Err() != nil:
			return Got{}, context.Cause(ctx)
		case all.Err() != nil, errors.As(err, &never):
			return Got{}, show.error("", err)
		case try == tries:
			return Got{}, show.error(fmt.Sprintf("tried %d times: ", tries), err)
		}
		pause := pauses.Next()
		if c.Log != nil {
			fmt.Fprintf(c.Log, "%v; again in %v\n", show.error("", err), pause.Round(time.Millisecond))
		}
		if !backoff.Sleep(pause, all.Done()) {
			if ctx.Err() != nil {
				return Got{}, context.Cause(ctx)
			}
			return Got{}, show.error("", fmt.Errorf("%w: %w", late, err))
		}
	}
}

// once tries once.
func (c *Client) once(ctx context.Context, f File, take Take) (Got, error) {
	silence := cmp.Or(c.Silence, time.Minute)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the server has sent nothing for %v", silence)) })
	defer watch.Stop()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return Got{}, &lasting{errors.New("it is none: in user, password and query the characters / ? # @ % are written %2F %3F %23 %40 %25")}
	}
	transport := c.Transport
	if transport == nil {
		own := newTransport(silence)
		defer own.CloseIdleConnections()
		transport = own
	}
	client := &http.Client{Transport: redirects{transport}, CheckRedirect: func(to *http.Request, from []*http.Request) error {
		watch.Reset(silence) // it said something
		return checkRedirect(to, from)
	}}
	resp, err := client.Do(req)
	watch.Stop()
	if err != nil {
		return Got{}, whyNot(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		watch.Reset(silence)
		return Got{}, refused(resp)
	}
	b := newBody(ctx, resp, f, func() { watch.Reset(silence) }, func() { watch.Stop() })
	return b.give(take)
}

// newTransport is a transport whose steps all end.
func newTransport(silence time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: silence}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
		TLSHandshakeTimeout: silence, ResponseHeaderTimeout: silence,
		DisableCompression: true, // the bytes are those of the file, and as many as the server says
	}
}
