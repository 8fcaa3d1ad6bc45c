package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts plays the transcripts in testdata: a command to a line, the effects as the expected output.
// Sizes are in pages. Run with -rewrite after a change that you can explain.
//
//	new capacity=8 arena=4 large=3 [pool=2] [reserve=2]
//	request 1 owner=1 class=start pins=(1,2) leases=(1,2f,3o)
//	seal lease=1 key=1 off=0 n=1 refs=1    close lease=1 used=1    release 1    unpin 1 key=1    dead owner=1
//	lend key=1
//	unref key=1 n=1    elsewhere key=1 [not]    retry    forget key=1    cold key=1    prepare 8    reserve 2
//	segment 1 [fail]    spill 1 [fail]    read 1 [fail]       the driver's answers
//	adopt segments=(1a4,2f2) datasets=(1@1+0+2,2@2+0+2,3@disk+1)
//	stats    dataset 1
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var l *Ledger
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				l = scriptLedger(t, d)
				return "ok"
			}
			s := script{t: t, l: l, d: d}
			out := s.run()
			if err := l.Check(); err != nil {
				out += "CHECK: " + err.Error() + "\n"
			}
			if out == "" {
				return "nothing"
			}
			return out
		})
	})
}

const scriptPage = 16

func scriptLedger(t *testing.T, d *datadriven.TestData) *Ledger {
	cfg := Config{PageBytes: scriptPage}
	for name, to := range map[string]*int64{"capacity": &cfg.Capacity, "arena": &cfg.ArenaBytes, "large": &cfg.LargeBytes,
		"pool": &cfg.PoolBytes, "reserve": &cfg.ReserveBytes} {
		d.MaybeScanArgs(t, name, to)
		*to *= scriptPage
	}
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

type script struct {
	t *testing.T
	l *Ledger
	d *datadriven.TestData
}

func (s script) run() string {
	var b strings.Builder
	err := s.command(&b)
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	for _, e := range s.l.Take() {
		b.WriteString(describe(e) + "\n")
	}
	return b.String()
}

func (s script) num(name string) int {
	var n int
	s.d.ScanArgs(s.t, name, &n)
	return n
}

// first is the number that follows the command.
func (s script) first() int {
	n, err := strconv.Atoi(s.d.CmdArgs[0].Key)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return n
}

func (s script) list(name string) []string {
	for _, a := range s.d.CmdArgs {
		if a.Key == name {
			return slices.DeleteFunc(a.Vals, func(v string) bool { return v == "" })
		}
	}
	return nil
}

func (s script) command(b *strings.Builder) error {
	l := s.l
	bad := func() error {
		if s.d.HasArg("fail") {
			return errors.New("injected")
		}
		return nil
	}
	switch s.d.Cmd {
	case "request":
		return l.Request(s.request())
	case "seal":
		return l.Seal(LeaseID(s.num("lease")), key(s.num("key")), int64(s.num("off"))*scriptPage, int64(s.num("n"))*scriptPage, s.num("refs"))
	case "close":
		return l.CloseLease(LeaseID(s.num("lease")), int64(s.num("used"))*scriptPage)
	case "release":
		return l.Release(RequestID(s.first()))
	case "unpin":
		return l.Unpin(RequestID(s.first()), key(s.num("key")))
	case "dead":
		l.OwnerDead(Owner(s.num("owner")))
	case "ref":
		return l.Ref(key(s.num("key")), s.num("n"))
	case "unref":
		return l.Unref(key(s.num("key")), s.num("n"))
	case "forget":
		return l.Forget(key(s.num("key")))
	case "elsewhere":
		return l.SetElsewhere(key(s.num("key")), !s.d.HasArg("not"))
	case "retry":
		l.Retry()
	case "lend":
		return l.Lend(key(s.num("key")))
	case "cold":
		return l.MarkCold(key(s.num("key")))
	case "prepare":
		l.Prepare(int64(s.first()) * scriptPage)
	case "reserve":
		l.SetReserve(int64(s.first()) * scriptPage)
	case "segment":
		if err := bad(); err != nil {
			return l.SegmentFailed(SegmentID(s.first()), err)
		}
		return l.SegmentReady(SegmentID(s.first()))
	case "spill":
		if err := bad(); err != nil {
			return l.SpillFailed(key(s.first()), err)
		}
		return l.SpillDone(key(s.first()))
	case "read":
		if err := bad(); err != nil {
			return l.ReadBackFailed(key(s.first()), err)
		}
		return l.ReadBackDone(key(s.first()))
	case "adopt":
		return s.adopt(b)
	case "stats":
		st := l.Stats()
		fmt.Fprintf(b, "segments %d held %d pooled %d spilled %d limit %d, %d datasets %d leases %d waiting\n", st.Segments/scriptPage,
			st.Held/scriptPage, st.Pooled/scriptPage, st.Spilled/scriptPage, st.Limit/scriptPage, st.Datasets, st.Leases, st.Waiting)
	case "dataset":
		i, ok := l.Dataset(key(s.first()))
		fmt.Fprintf(b, "%v %v %s refs %d pins %d disk %v known %v\n", i.State, i.Kind, at(i.Place), i.Refs, i.Pins, i.OnDisk, ok)
	default:
		s.d.Fatalf(s.t, "unknown command")
	}
	return nil
}

func (s script) request() Request {
	r := Request{ID: RequestID(s.first()), Owner: Owner(s.num("owner"))}
	var class string
	s.d.ScanArgs(s.t, "class", &class)
	r.Class = Class(slices.Index([]string{"grow", "start", "prefetch"}, class))
	for _, v := range s.list("pins") {
		n, err := strconv.Atoi(v)
		if err != nil {
			s.d.Fatalf(s.t, "%v", err)
		}
		r.Pins = append(r.Pins, key(n))
	}
	for _, v := range s.list("leases") {
		spec := LeaseSpec{}
		if n := strings.TrimSuffix(v, "f"); n != v {
			v, spec.Kind = n, File
		} else if n := strings.TrimSuffix(v, "o"); n != v {
			v, spec.Kind = n, Output
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			s.d.Fatalf(s.t, "%v", err)
		}
		spec.Bytes = n * scriptPage
		r.Leases = append(r.Leases, spec)
	}
	return r
}

func (s script) adopt(b *strings.Builder) error {
	var segments []AdoptedSegment
	var datasets []AdoptedDataset
	for _, v := range s.list("segments") {
		var a AdoptedSegment
		var kind rune
		if _, err := fmt.Sscanf(v, "%d%c%d", &a.ID, &kind, &a.Bytes); err != nil {
			s.d.Fatalf(s.t, "%s: %v", v, err)
		}
		a.Kind = Kind(strings.IndexRune("afo", kind))
		a.Bytes *= scriptPage
		segments = append(segments, a)
	}
	for _, v := range s.list("datasets") { // places of datasets in bytes, so that they can share pages
		var k int
		a := AdoptedDataset{Refs: 1}
		if _, err := fmt.Sscanf(v, "%d@disk+%d", &k, &a.Place.Bytes); err == nil {
			a.OnDisk = true
		} else if _, err := fmt.Sscanf(v, "%d@%d+%d+%d", &k, &a.Place.Segment, &a.Place.Offset, &a.Place.Bytes); err == nil {
			a.InMemory = true
		} else {
			s.d.Fatalf(s.t, "%s: %v", v, err)
		}
		a.Key = key(k)
		datasets = append(datasets, a)
	}
	rejected, err := s.l.Adopt(segments, datasets)
	for _, r := range rejected {
		fmt.Fprintf(b, "rejected %d: %v\n", short(r.Key), r.Err)
	}
	return err
}

func short(k Key) uint64 { _, _, _, n := k.Split(); return n }

func at(p Place) string { return fmt.Sprintf("%d+%d+%d", p.Segment, p.Offset, p.Bytes) }

func describe(e Effect) string {
	switch e := e.(type) {
	case CreateSegment:
		return fmt.Sprintf("create %v %d of %d", e.Kind, e.Segment, e.Bytes)
	case ResizeSegment:
		return fmt.Sprintf("resize %d to %d", e.Segment, e.Bytes)
	case SealSegment:
		return fmt.Sprintf("seal %v %d at %d", e.Kind, e.Segment, e.Bytes)
	case RemoveSegment:
		return fmt.Sprintf("remove %d", e.Segment)
	case Spill:
		return fmt.Sprintf("spill key %d from %s", short(e.Key), at(e.From))
	case ReadBack:
		return fmt.Sprintf("read back key %d to %s", short(e.Key), at(e.To))
	case DropSpill:
		return fmt.Sprintf("drop spill of key %d", short(e.Key))
	case Enter:
		return fmt.Sprintf("enter key %d at %s", short(e.Key), at(e.Place))
	case Strike:
		return fmt.Sprintf("strike key %d", short(e.Key))
	case Granted:
		s := fmt.Sprintf("granted %d to owner %d:", e.ID, e.Owner)
		for _, p := range e.Pins {
			s += fmt.Sprintf(" key %d at %s", short(p.Key), at(p.Place))
		}
		for _, le := range e.Leases {
			s += fmt.Sprintf(" lease %d (%v) at %s", le.ID, le.Kind, at(le.Place))
		}
		return s
	case Waiting:
		return fmt.Sprintf("waiting %d for %d", e.ID, e.Bytes)
	case Failed:
		return fmt.Sprintf("failed %d: %s", e.ID, strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	case Revoked:
		return fmt.Sprintf("revoked %d", e.ID)
	case Dropped:
		return fmt.Sprintf("dropped key %d", short(e.Key))
	case Lost:
		return fmt.Sprintf("lost key %d: %v", short(e.Key), e.Err)
	case Freed:
		return fmt.Sprintf("freed key %d", short(e.Key))
	}
	return fmt.Sprintf("%T%+v", e, e)
}
