package runtimeenv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// An external plugin is started for each request. Frames are a length of four bytes,
// big-endian, and a msgpack map of as many bytes:
//
//	agent                                    program
//	  {protocol, do, settings, ...}  ──────▶  standard input, then its end
//	                                 ◀──────  {tell: TEXT}, while it creates: any number of them
//	                                 ◀──────  {done: true, ...}, or {error: TEXT, transient: BOOL}; then it ends with status 0
//
// A program's fault is its own failure: one that hangs, floods, dies or answers
// something else is ended with its process group, and named. Its standard error is
// reported with the failure.

// pluginProtocol is the version of requests and answers.
const pluginProtocol = 1

// pluginRequest is what a plugin is asked.
type pluginRequest struct {
	Protocol    int    `msgpack:"protocol"`
	Do          string `msgpack:"do"`          // describe, validate, key, create, activate, delete
	Environment string `msgpack:"environment"` // its name in the job
	Source      string `msgpack:"source"`      // folder that relative paths of the settings refer to
	Settings    any    `msgpack:"settings"`    // of the plugin, as in the job
	Dir         string `msgpack:"dir"`         // create: an empty folder to fill; activate, delete: what create has filled
	Place       string `msgpack:"place"`       // create: where dir is moved afterwards
}

// pluginAnswer is what a plugin says.
type pluginAnswer struct {
	Tell string `msgpack:"tell"` // what a build waits for; more answers follow

	Done      bool   `msgpack:"done"`
	Error     string `msgpack:"error"`
	Transient bool   `msgpack:"transient"` // the same may succeed later

	Protocol int               `msgpack:"protocol"` // describe
	Priority int               `msgpack:"priority"` // describe
	Key      string            `msgpack:"key"`      // key: equal when create would make the same
	Packages []string          `msgpack:"packages"` // create: NAME VERSION of what was installed
	Env      map[string]string `msgpack:"env"`      // activate: variables
	Path     []string          `msgpack:"path"`     // activate: folders for the front of PATH
}

// exchangeLimits is how long a plugin may take.
type exchangeLimits struct {
	answer time.Duration // for all but create
	create time.Duration
}

const (
	maxFrame = 1 << 20  // bytes
	maxTells = 1000     // of one request
	maxTell  = 1 << 10  // bytes of one that are told
	maxSaid  = 64 << 10 // bytes of standard error that are kept: the last
)

// ask asks the plugin once. The answer is a done one.
func (p *externalPlugin) ask(ctx context.Context, req pluginRequest, tell func(string)) (pluginAnswer, error) {
	limit := p.limits.answer
	if req.Do == "create" {
		limit = p.limits.create
	}
	late := fmt.Errorf("it took longer than %s", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	a, said, err := p.exchange(ctx, req, tell)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause // it was killed: what else went wrong follows from that
	}
	if err == nil {
		return a, nil
	}
	return pluginAnswer{}, &PluginError{Plugin: p.name, Do: req.Do, Said: withoutSecrets(strings.TrimSpace(said)), Err: err, again: a.Transient && a.Error != ""}
}

// exchange starts the program, and returns its answer and the last that it wrote to standard error.
func (p *externalPlugin) exchange(ctx context.Context, req pluginRequest, tell func(string)) (a pluginAnswer, said string, err error) {
	req.Protocol = pluginProtocol
	question, err := frame(req)
	if err != nil {
		return a, "", err
	}
	// A parent-death signal comes when the thread that started the child ends: keep the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var last lastBytes
	cmd := tool{dir: req.Dir}.command(ctx, p.path)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(question), &last
	out, err := cmd.StdoutPipe()
	if err != nil {
		return a, "", err
	}
	if err := cmd.Start(); err != nil {
		return a, "", err
	}
	a, err = readAnswer(out, tell)
	if err != nil {
		stop() // whatever it still does is of no use
	}
	ended := cmd.Wait()
	switch {
	case err == nil && a.Error != "":
		err = errors.New(a.Error)
	case err == nil && ended != nil:
		err = fmt.Errorf("it answered, and then: %w", ended)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if err = errors.New("it ended without an answer"); ended != nil {
			err = fmt.Errorf("%w: %w", err, ended)
		}
	}
	return a, last.text(), err
}

func frame(v any) ([]byte, error) {
	var text bytes.Buffer
	e := msgpack.NewEncoder(&text)
	e.SetSortMapKeys(true)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	if text.Len() > maxFrame {
		return nil, fmt.Errorf("its settings have %d bytes, at most %d are sent", text.Len(), maxFrame)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(text.Len())), text.Bytes()...), nil
}

// readAnswer reads answers up to the last one, behind which nothing may follow.
func readAnswer(from io.Reader, tell func(string)) (a pluginAnswer, err error) {
	for range maxTells {
		if a, err = readFrame(from); err != nil {
			return pluginAnswer{}, err
		}
		if a.Done || a.Error != "" {
			if n, err := from.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
				return pluginAnswer{}, errors.New("it writes on behind its answer")
			}
			return a, nil
		}
		if a.Tell == "" {
			return pluginAnswer{}, errors.New("its answer has neither tell nor done nor error")
		}
		if tell != nil {
			tell(withoutSecrets(a.Tell[:min(len(a.Tell), maxTell)]))
		}
	}
	return pluginAnswer{}, fmt.Errorf("it says more than %d times what it does", maxTells)
}

func readFrame(from io.Reader) (a pluginAnswer, err error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return a, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return a, fmt.Errorf("an answer of %d bytes, at most %d are taken (does it print to standard output?)", n, maxFrame)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(from, text); err != nil {
		return a, io.ErrUnexpectedEOF
	}
	return decodeAnswer(text)
}

// decodeAnswer reads a msgpack map of nothing but what an answer has.
func decodeAnswer(text []byte) (a pluginAnswer, err error) {
	r := bytes.NewReader(text)
	d := msgpack.NewDecoder(r)
	d.DisallowUnknownFields(true) // a misspelt key is a mistake, and one that is passed over may nest without end
	if err = d.Decode(&a); err == nil && r.Len() > 0 {
		err = fmt.Errorf("%d bytes stand behind it", r.Len())
	}
	if err != nil {
		return pluginAnswer{}, fmt.Errorf("its answer cannot be read: %w", err)
	}
	return a, nil
}

// lastBytes keeps the end of what is written.
type lastBytes struct{ b []byte }

func (l *lastBytes) Write(b []byte) (int, error) {
	if l.b = append(l.b, b...); len(l.b) > 2*maxSaid {
		l.b = append(l.b[:0], l.b[len(l.b)-maxSaid:]...)
	}
	return len(b), nil
}

func (l *lastBytes) text() string { return string(l.b[max(0, len(l.b)-maxSaid):]) }

// PluginError says that an external plugin failed.
type PluginError struct {
	Plugin string // its name
	Do     string // what it was asked
	Said   string // the last that it wrote to standard error
	Err    error  // what it answered, or what it did wrong
	again  bool
}

func (e *PluginError) Error() string {
	text := fmt.Sprintf("plugin %s: %s: %v", e.Plugin, e.Do, e.Err)
	if e.Said != "" {
		text += "\n" + e.Said
	}
	return text
}

// Unwrap returns the cause.
func (e *PluginError) Unwrap() error { return e.Err }

// Transient tells whether the plugin says that the same may succeed later.
func (e *PluginError) Transient() bool { return e.again }
