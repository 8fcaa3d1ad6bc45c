package executor

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor/source"
	"github.com/cascade-run/cascade/internal/fetch"
)

// inputFunction is what the tasks of a job's inputs run. It is in no registry:
// every executor has it, and it is not announced.
func inputFunction() *Func {
	return &Func{
		Name: dag.InputFunction,
		With: reflect.TypeFor[source.Source](),
		Outputs: []Port{
			{Name: dag.InputOutput, Type: reflect.TypeFor[[]byte]()},
		},
		Call: func(ctx context.Context, in, out []any) error {
			s, ok := in[0].(source.Source)
			if !ok {
				return fmt.Errorf("the parameters are %T", in[0])
			}
			b, err := readSource(ctx, s)
			out[0] = b
			return err
		},
	}
}

// readSource reads an input into the store.
func readSource(ctx context.Context, s source.Source) ([]byte, error) {
	r, ok := ctx.Value(taskKey{}).(*run)
	if !ok {
		return nil, fmt.Errorf("input %s%s is read by executors only", s.Path, s.URL)
	}
	if s.URL == "" && !filepath.IsAbs(s.Path) {
		s.Path = filepath.Join(r.kind.Dir, s.Path) // of a client that hashes no files
	}
	reader := source.Reader{
		Room: func(n int) ([]byte, error) {
			b, err := r.alloc(n)
			if b == nil && err == nil {
				b = make([]byte, n) // it travels in the message
			}
			return b, err
		},
		FromCluster: func(ctx context.Context, sha256 string, into []byte) error {
			return r.exec.blobs.fetch(ctx, r.exec.out.send, comms.PackageHash(sha256), into)
		},
		Scratch: r.exec.welcome.Scratch,
		Host:    r.exec.welcome.Agent,
		HTTP:    fetch.Client{Log: lateLog{r}},
	}
	return reader.Read(ctx, s)
}

// lateLog is a run's log, which is made when something is written.
type lateLog struct{ run *run }

func (l lateLog) Write(b []byte) (int, error) { return l.run.logger().Write(b) }
