package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	units "github.com/docker/go-units"
)

// Pair is the way of data from one host to another, by the names of their agents,
// which stay when they are started again. From "" stands for several hosts at once.
type Pair struct{ From, To string }

// Key returns the pair as one string; ParsePair is its inverse. Names hold no NUL.
func (p Pair) Key() string { return p.From + "\x00" + p.To }

// ParsePair reads what Key writes.
func ParsePair(key string) (Pair, error) {
	from, to, ok := strings.Cut(key, "\x00")
	if !ok || to == "" || strings.ContainsRune(to, 0) {
		return Pair{}, fmt.Errorf("link key %q: want two hosts", key)
	}
	return Pair{from, to}, nil
}

// Link sums up what came from one host to another. Means, variances and histograms
// look back on about 20 flows each.
type Link struct {
	Flows  uint64  // from which the bandwidth is known
	Rate   float64 // mean, bytes a second
	Var    float64 // variance of the rate
	Rates  Sketch
	Delays uint64  // small datasets that came alone
	Delay  float64 // mean, seconds from asking for one to having it
	Waits  Sketch  // of these seconds
	Bytes  float64 // that were measured in all
	At     int64   // when that was the last time, seconds since 1970

	bandwidth, latency float64 // what is believed: see settle
}

const (
	linkWindow = 20       // flows that a link looks back on: a network changes sooner than code
	linkLeast  = 3        // flows from which a link is believed
	smallFlow  = 64 << 10 // bytes of a piece from which it says more of the bandwidth than of the delay
	maxLinks   = 1 << 16  // that a book keeps: all pairs of 256 hosts
	// A flow is at most as fast as its link: what else used the link, and what the
	// sender waited for, is in it. So a link has what a tenth of its flows exceed, and
	// not their mean; the highest could be an error of a clock. BBR takes the highest of
	// a window for the same reason (Cardwell et al., BBR: congestion-based congestion
	// control, ACM Queue 2016).
	linkPart = 0.9
)

// settle finds what is believed, after a change: plans of many hosts ask for all of it
// again and again.
func (l *Link) settle() *Link {
	l.bandwidth, l.latency = 0, 0
	if l.Flows >= linkLeast {
		l.bandwidth = l.Rates.Quantile(linkPart)
	}
	if l.Delays >= linkLeast {
		l.latency = l.Waits.Quantile(0.5)
	}
	return l
}

// Bandwidth returns the bytes a second that the link carries; 0 unknown.
func (l *Link) Bandwidth() float64 {
	if l == nil {
		return 0
	}
	return l.bandwidth
}

// Latency returns the seconds before anything comes; 0 unknown.
func (l *Link) Latency() float64 {
	if l == nil {
		return 0
	}
	return l.latency
}

// BitsText prints bytes a second as networks are sold, in bits; nothing for 0.
func BitsText(bytes float64) string {
	if bytes <= 0 {
		return ""
	}
	return units.CustomSize("%.3g%s", bytes*8, 1000, []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"})
}

// Flow is what one host sent another without a break: see comms.Flow.
type Flow struct {
	Pair
	Bytes   float64
	Pieces  float64
	Seconds float64
	Beside  float64 // bytes that came from others meanwhile
	Others  float64 // hosts that were to send meanwhile, on average
	At      int64   // seconds since 1970
}

const (
	alone = 0.1 // others on average, up to which a flow had the port of its receiver for itself
	less  = 0.5 // of what another got, below which a flow was held back elsewhere
)

// RecordFlow takes in a flow. One that makes no sense is not taken.
//
// Where hosts share their ports max-min fairly a flow is held back by a port at
// which no other gets more (Bertsekas and Gallager, Data Networks, 1992, 6.5.2). So
// of those that come together at one host
//   - one that is alone is as fast as its link;
//   - one that gets much less than the others is so, too: the host's own port would
//     give it more;
//   - of the others only this is known, that the host receives so much from all
//     together. That is kept as the link from "".
//
// The flows of a sender to other hosts are not visible here. They make flows slower,
// and weigh little: see Bandwidth.
func (b *Book) RecordFlow(f Flow) {
	for _, x := range [...]float64{f.Bytes, f.Pieces, f.Beside, f.Others} {
		if !(x >= 0 && x <= maxFlow) {
			return
		}
	}
	if !(f.Seconds >= least && f.Seconds <= maxFlow) || f.Bytes == 0 || f.Pieces == 0 || f.From == f.To || f.To == "" || f.At < 0 {
		return
	}
	switch {
	case f.Others <= alone && f.Pieces == 1 && f.Bytes < smallFlow:
		b.link(f.Pair, &f, func(l *Link) { l.waited(f.Seconds) })
	case f.Bytes < smallFlow*f.Pieces:
		// Many small ones: what each costs by itself is most of it.
	case f.Others <= alone || f.Bytes < less*f.Beside/f.Others:
		b.link(f.Pair, &f, func(l *Link) { l.carried(f.Bytes, f.Seconds) })
	default:
		b.link(Pair{To: f.To}, &f, func(l *Link) { l.carried(f.Bytes+f.Beside, f.Seconds) })
	}
}

// maxFlow bounds what is recorded of one flow, as maxCost does: rates are squared.
const maxFlow = 1e40

func (l *Link) waited(seconds float64) {
	l.Delays++
	n := float64(min(l.Delays, linkWindow))
	l.Delay += (seconds - l.Delay) / n
	l.Waits.add(seconds, n)
}

// carried takes in so many bytes in a time. The wait for the first of them is no
// part of the bandwidth; as far as it is known, it goes off, but not more than half.
func (l *Link) carried(bytes, seconds float64) {
	rate := bytes / max(seconds-l.Latency(), seconds/2)
	l.Flows++
	n := float64(min(l.Flows, linkWindow))
	l.Rate, l.Var = update(l.Rate, l.Var, rate, 1/n)
	l.Rates.add(rate, n)
}

// link changes the entry of a pair. Entries that snapshots refer to stay as they are.
func (b *Book) link(p Pair, f *Flow, change func(*Link)) {
	l := &Link{}
	if old := b.links[p]; old != nil {
		*l = *old
		l.Rates, l.Waits = old.Rates.clone(), old.Waits.clone()
	}
	change(l)
	l.Bytes, l.At = min(l.Bytes+f.Bytes, maxCost), max(l.At, f.At)
	b.PutLink(p, l)
}

// PutLink replaces what is known of a pair. The link belongs to the book from now on.
func (b *Book) PutLink(p Pair, l *Link) {
	if b.linksShared {
		b.links, b.linksShared = maps.Clone(b.links), false
	}
	if b.links == nil {
		b.links, b.dirtyLinks = map[Pair]*Link{}, map[Pair]struct{}{}
	}
	if b.links[p] == nil && len(b.links) >= maxLinks {
		b.forgetLinks()
	}
	b.links[p] = l.settle()
	b.dirtyLinks[p] = struct{}{}
}

// forgetLinks makes room: the eighth of the links that were measured longest ago goes.
func (b *Book) forgetLinks() {
	all := slices.SortedFunc(maps.Keys(b.links), func(x, y Pair) int {
		return cmp.Or(cmp.Compare(b.links[x].At, b.links[y].At), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	for _, p := range all[:max(len(all)/8, 1)] {
		delete(b.links, p)
		b.dirtyLinks[p] = struct{}{}
	}
}

// Links returns the measured ways between hosts, in order of their names. The result
// must not be changed.
func (b *Book) Links() iter.Seq2[Pair, *Link] { return sortedLinks(b.links) }

// Links is Book.Links of a snapshot, in no order.
func (s Snapshot) Links() iter.Seq2[Pair, *Link] { return maps.All(s.links) }

func sortedLinks(links map[Pair]*Link) iter.Seq2[Pair, *Link] {
	return func(yield func(Pair, *Link) bool) {
		for _, p := range slices.SortedFunc(maps.Keys(links), func(x, y Pair) int {
			return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
		}) {
			if !yield(p, links[p]) {
				return
			}
		}
	}
}

// ErrMalformedLink says that bytes are no link.
var ErrMalformedLink = errors.New("link is malformed")

// Encode returns version 1 of the stored form. Later versions append.
func (l *Link) Encode() []byte {
	e := encoder{b: []byte{1}}
	e.word(l.Flows)
	e.floats(l.Rate, l.Var)
	e.sketch(&l.Rates)
	e.word(l.Delays)
	e.floats(l.Delay)
	e.sketch(&l.Waits)
	e.floats(l.Bytes)
	e.word(uint64(l.At))
	return e.b
}

// DecodeLink reads what Link.Encode writes, in this version or a later one.
func DecodeLink(b []byte) (*Link, error) {
	if len(b) == 0 || b[0] == 0 {
		return nil, ErrMalformedLink
	}
	r, l := &reader{b: b[1:]}, &Link{}
	l.Flows = r.word()
	r.floats(&l.Rate, &l.Var)
	r.sketch(&l.Rates)
	l.Delays = r.word()
	r.floats(&l.Delay)
	r.sketch(&l.Waits)
	r.floats(&l.Bytes)
	at := r.word()
	if l.At = int64(at); r.bad || at > math.MaxInt64 {
		return nil, ErrMalformedLink
	}
	return l.settle(), nil
}
