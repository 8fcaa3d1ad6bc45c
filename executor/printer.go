package executor

import (
	"io"
	"sync"
)

// mostPrinted is how many bytes of text wait for a writer that does not keep up. More is dropped: the log of the session has all.
const mostPrinted = 1 << 20

// printer writes what called tasks have written. The writers are the program's, and may block for ever, as a terminal that
// was stopped does: they have a goroutine of their own while there is text.
type printer struct {
	to [2]io.Writer

	mu    sync.Mutex
	work  sync.WaitGroup // the goroutine
	runs  bool           // there is one
	ended bool
	texts []printed
	bytes int // of texts
}

// printed is a text for one of the writers.
type printed struct {
	to   io.Writer
	text []byte
}

func newPrinter(out, err io.Writer) *printer { return &printer{to: [2]io.Writer{out, err}} }

// print has a text written behind those before it. stream is 1 for the standard output and 2 for the standard error; of
// others, and without a writer, the text is dropped. It does not block, and keeps text.
func (p *printer) print(stream uint8, text []byte) {
	if stream < 1 || stream > 2 || p.to[stream-1] == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.bytes+len(text) > mostPrinted {
		return
	}
	p.texts, p.bytes = append(p.texts, printed{p.to[stream-1], text}), p.bytes+len(text)
	if !p.runs {
		p.runs = true
		p.work.Go(p.run)
	}
}

// run writes until nothing is left.
func (p *printer) run() {
	for {
		p.mu.Lock()
		if len(p.texts) == 0 {
			p.runs = false
			p.mu.Unlock()
			return
		}
		next := p.texts[0]
		p.texts = p.texts[1:]
		p.mu.Unlock()
		_, _ = next.to.Write(next.text) // an error is the program's affair: the log of the session has the text
		p.mu.Lock()
		p.bytes -= len(next.text)
		p.mu.Unlock()
	}
}

// close waits until all is written that came before it.
func (p *printer) close() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.work.Wait()
}
