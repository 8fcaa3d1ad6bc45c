//go:build linux

package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/flock"
	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/shm/ledger"
)

// memory performs an effect of the ledger. Two lanes keep the order: one for
// segments, because a removal must give memory back before the next creation
// asks for it; one for spill files, which may be slow. The ledger waits for the
// answers where the two meet.
func (l *loop) memory(act core.Memory) {
	a := l.agent
	switch e := act.Effect.(type) {
	case ledger.CreateSegment:
		path := a.store.Path(e.Kind, e.Segment)
		l.segments[uint64(e.Segment)] = path
		a.segmentLane.do(func() { l.segmentReady(e.Segment, path, a.store.Do(e, nil)) })
	case ledger.ResizeSegment:
		path := l.segments[uint64(e.Segment)]
		fits := a.store.Fits(e.Segment, e.Bytes)
		if !fits { // else its pages stay mapped for the next transfer: to map a gibibyte takes 30 to 90 ms
			l.forgetMapping(path)
		}
		if fits && a.segmentLane.idle() { // microseconds: two wake-ups take longer
			l.step(core.SegmentReady{Segment: uint64(e.Segment), Path: path, Err: a.store.Do(e, nil)})
			break
		}
		a.segmentLane.do(func() { l.segmentReady(e.Segment, path, a.store.Do(e, nil)) })
	case ledger.RemoveSegment:
		l.forgetMapping(l.segments[uint64(e.Segment)])
		delete(l.segments, uint64(e.Segment))
		l.quietly(&a.segmentLane, e)
	case ledger.SealSegment:
		// An output that a command made was never created here.
		l.segments[uint64(e.Segment)] = a.store.Path(e.Kind, e.Segment)
		if a.segmentLane.idle() { // before a command can open it
			l.report(a.store.Do(e, nil))
			break
		}
		l.quietly(&a.segmentLane, e)
	case ledger.FreedRange: // check builds; at once, before the range has a new owner
		l.report(a.store.Do(e, nil))
	case ledger.Enter: // before a message tells that the dataset is here
		if err := a.index.Enter(e.Key, e.Place, dataMeta(e.Key, act.Desc, act.JobIncarnation)); err != nil {
			a.log.Warn().Err(err).Msg("a dataset would be lost with this agent")
		}
	case ledger.Strike: // before another writer may use the place
		a.index.Strike(e.Key)
	case ledger.Spill:
		a.spillLane.do(func() {
			err := a.store.Do(e, dataMeta(e.Key, act.Desc, act.JobIncarnation))
			a.in.Push(item{ev: core.SpillDone{Key: e.Key, File: a.store.SpillPath(e.Key), Err: err}})
		})
	case ledger.ReadBack:
		a.spillLane.do(func() {
			a.in.Push(item{ev: core.ReadBackDone{Key: e.Key, Err: a.store.Do(e, nil)}})
		})
	case ledger.DropSpill:
		l.quietly(&a.spillLane, e)
	default:
		panic(fmt.Sprintf("agent: the ledger asks for %T, which the driver does not know", act.Effect))
	}
}

func (l *loop) segmentReady(id ledger.SegmentID, path string, err error) {
	l.agent.in.Push(item{ev: core.SegmentReady{Segment: uint64(id), Path: path, Err: err}})
}

// quietly performs an effect that has no answer: its failure leaves bytes behind and does no other harm.
func (l *loop) quietly(on *lane, e ledger.Effect) {
	on.do(func() { l.report(l.agent.store.Do(e, nil)) })
}

func (l *loop) report(err error) {
	if err != nil {
		l.agent.log.Warn().Err(err).Msg("shared memory")
	}
}

// toClient answers a request.
func (l *loop) toClient(act core.ToClient) {
	c := l.clients[act.Client]
	if c == nil {
		return
	}
	head := comms.Encode(act.Msg)
	l.agent.work.Go(func() { c.answer(head, act.Body) })
}

// serveChunk reads bytes of a dataset, which the core has pinned, and sends them.
func (l *loop) serveChunk(act core.ServeChunk) {
	c := l.clients[act.Client]
	served := core.ChunkServed{Client: act.Client, Req: act.Msg.Req}
	if c == nil {
		l.agent.in.Push(item{ev: served})
		return
	}
	l.agent.work.Go(func() {
		defer l.agent.in.Push(item{ev: served})
		var msg comms.Message = act.Msg
		body, err := readAt(act.Path, act.At, act.N)
		if err != nil {
			msg = &comms.Reply{Req: act.Msg.Req, Code: comms.CodeInternal, Message: err.Error()}
		}
		c.answer(comms.Encode(msg), body)
	})
}

func readAt(path string, at, n uint64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read dataset: %w", err)
	}
	defer file.Close()
	body := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(file, int64(at), int64(n)), body); err != nil {
		return nil, fmt.Errorf("read %d bytes of a dataset at %d of %s: %w", n, at, path, err)
	}
	return body, nil
}

// removeControlPages removes the control pages of executors of an agent that was killed.
func removeControlPages(dir string) error {
	pages, err := filepath.Glob(filepath.Join(dir, "c[0-9]*"))
	if err != nil {
		return fmt.Errorf("look for control pages: %w", err)
	}
	for _, p := range pages {
		if err := os.Remove(p); err != nil {
			return fmt.Errorf("remove control page of a dead executor: %w", err)
		}
	}
	return nil
}

// deadStoreAge is how long the memory of an agent that was killed is left to its
// successor: the next agent with the same state folder, which adopts it.
const deadStoreAge = 10 * time.Minute

// removeDeadStores removes the shared-memory folders of other agents of this user
// that died without a successor. A living agent holds its folder's lock.
func removeDeadStores(root, own string) error {
	dirs, err := filepath.Glob(filepath.Join(root, fmt.Sprintf("cascade-%d-*", os.Getuid())))
	if err != nil {
		return fmt.Errorf("look for folders of dead agents: %w", err)
	}
	var failed []string
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if dir == own || err != nil || !info.IsDir() || time.Since(info.ModTime()) < deadStoreAge {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue // not made by an agent, or gone meanwhile
		}
		if flock.TryFile(lock, flock.Exclusive) == nil {
			if err := safedir.Remove(dir); err != nil {
				failed = append(failed, err.Error())
			}
		}
		lock.Close()
	}
	if len(failed) > 0 {
		return fmt.Errorf("remove folders of dead agents: %s", strings.Join(failed, "; "))
	}
	return nil
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
