package memnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func numbersConfig(seed uint64) Config[uint64] {
	return Config[uint64]{
		Seed:     seed,
		Replay:   true,
		MinDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond,
		Encode: func(v uint64) ([]byte, []byte, error) { return binary.BigEndian.AppendUint64(nil, v), nil, nil },
		Decode: func(head, body []byte) (uint64, error) {
			if len(head) != 8 || body != nil {
				return 0, errors.New("not a number")
			}
			return binary.BigEndian.Uint64(head), nil
		},
	}
}

func newNet(t *testing.T, cfg Config[uint64], nodes ...string) *Net[uint64] {
	t.Helper()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range nodes {
		n.Start(0, name)
	}
	return n
}

// drain describes all deliveries up to a time, one a line.
func drain(n *Net[uint64], until time.Duration) string {
	var b strings.Builder
	for {
		at, d, ok := n.Next(until)
		if !ok {
			return b.String()
		}
		fmt.Fprintf(&b, "%v %s<-%s %s", at.Round(time.Millisecond), d.To, d.From, d.Kind)
		switch d.Kind {
		case Up:
			fmt.Fprintf(&b, " incarnation %d resumed %t", d.Incarnation, d.Resumed)
		case Message:
			fmt.Fprintf(&b, " %d", d.Msg)
		case Down:
			fmt.Fprintf(&b, " final %t", d.Final)
		}
		b.WriteByte('\n')
	}
}

func want(t *testing.T, got string, lines ...string) {
	t.Helper()
	rest := got
	for _, l := range lines {
		_, after, ok := strings.Cut(rest, l)
		if !ok {
			t.Fatalf("%q is missing, in this order, from\n%s", l, got)
		}
		rest = after
	}
}

func TestStory(t *testing.T) {
	n := newNet(t, numbersConfig(1), "agent", "controller")
	if err := n.Connect(0, "agent", "controller"); err != nil {
		t.Fatal(err)
	}
	if err := n.Send(0, "agent", "controller", 1); !errors.Is(err, ErrNoLink) {
		t.Errorf("send before up: %v", err)
	}
	want(t, drain(n, time.Second), "controller<-agent up incarnation 1 resumed false", "agent<-controller up incarnation 1 resumed false")
	send := func(at time.Duration, from, to string, v uint64) {
		t.Helper()
		if err := n.Send(at, from, to, v); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Second
	send(at, "agent", "controller", 1)
	send(at, "agent", "controller", 2)
	want(t, drain(n, 2*at), "controller<-agent message 1", "controller<-agent message 2")

	n.Break(2*at, "agent", "controller")
	send(2*at, "agent", "controller", 3) // lost on the wire, kept by the link
	want(t, drain(n, 3*at), "down final false")
	n.Heal(3*at, "controller", "agent")
	got := drain(n, 4*at)
	want(t, got, "agent<-controller up incarnation 1 resumed true", "controller<-agent message 3")
	if strings.Count(got, "message") != 1 {
		t.Errorf("more than one message:\n%s", got)
	}

	n.Stop(4*at, "controller")
	send(4*at, "agent", "controller", 4)
	want(t, drain(n, 5*at), "agent<-controller down final false")
	n.Start(5*at, "controller")
	got = drain(n, 6*at)
	want(t, got, "agent<-controller up incarnation 2 resumed false")
	if strings.Contains(got, "message") {
		t.Errorf("a message to the dead incarnation arrived:\n%s", got)
	}
	if n.Queued("agent", "controller") != 0 {
		t.Error("what was unacknowledged is still queued")
	}

	n.Restart(6*at, "agent")
	if err := n.Connect(6*at, "agent", "controller"); err != nil {
		t.Fatal(err)
	}
	want(t, drain(n, 7*at), "controller<-agent down final true", "controller<-agent up incarnation 2 resumed false")
	if !n.Idle() {
		t.Error("not idle")
	}
}

func TestExpiry(t *testing.T) {
	cfg := numbersConfig(1)
	cfg.ResumeWindow = 10 * time.Second
	n := newNet(t, cfg, "a", "b")
	if err := n.Connect(0, "a", "b"); err != nil {
		t.Fatal(err)
	}
	drain(n, time.Second)
	n.Break(time.Second, "a", "b")
	want(t, drain(n, 20*time.Second), "b<-a down final false", "b<-a down final true")
	n.Heal(20*time.Second, "a", "b")
	want(t, drain(n, 21*time.Second), "b<-a up incarnation 1 resumed false", "a<-b up incarnation 1 resumed false")
}

func TestWithoutReplayABreakIsFinal(t *testing.T) {
	cfg := numbersConfig(1)
	cfg.Replay = false
	n := newNet(t, cfg, "a", "b")
	if err := n.Connect(0, "a", "b"); err != nil {
		t.Fatal(err)
	}
	drain(n, time.Second)
	n.Cut(time.Second, "a", "b")
	got := drain(n, 2*time.Second)
	want(t, got, "down final true")
	want(t, got, "a<-b down final true")
	if n.Linked("a", "b") || n.Linked("b", "a") {
		t.Error("still linked")
	}
	if err := n.Connect(2*time.Second, "a", "b"); err != nil {
		t.Error(err)
	}
}

func TestFullQueueAndCredit(t *testing.T) {
	for _, replay := range []bool{true, false} {
		cfg := numbersConfig(3)
		cfg.Replay, cfg.QueueMessages, cfg.Window = replay, 10, 4
		n := newNet(t, cfg, "a", "b")
		if err := n.Connect(0, "a", "b"); err != nil {
			t.Fatal(err)
		}
		drain(n, time.Second)
		sent := uint64(0)
		for n.Send(time.Second, "a", "b", sent+1) == nil {
			sent++
		}
		if sent < 10 || sent > 14 {
			t.Errorf("replay %t: %d sent", replay, sent)
		}
		got := drain(n, 2*time.Second)
		want(t, got, "a<-b credit")
		want(t, got, fmt.Sprintf("message %d", sent))
	}
}

func TestSameSeedSameStory(t *testing.T) {
	story := func(seed uint64) string {
		cfg := numbersConfig(seed)
		cfg.BreakEvery = 200 * time.Millisecond
		n := newNet(t, cfg, "a", "b", "c")
		for _, to := range []string{"b", "c"} {
			if err := n.Connect(0, "a", to); err != nil {
				t.Fatal(err)
			}
		}
		all := ""
		for i := range uint64(50) {
			at := time.Duration(i) * 100 * time.Millisecond
			all += drain(n, at)
			for _, to := range []string{"b", "c"} {
				if n.Linked("a", to) {
					if err := n.Send(at, "a", to, i); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		return all + drain(n, 20*time.Second)
	}
	first, again := story(1), story(1)
	if first != again {
		t.Error("one seed, two stories")
	}
	if first == story(2) {
		t.Error("two seeds, one story")
	}
}

func TestMistakes(t *testing.T) {
	if _, err := New(Config[int]{}); err == nil {
		t.Error("no codec is accepted")
	}
	cfg := numbersConfig(1)
	cfg.Encode = func(v uint64) ([]byte, []byte, error) {
		if v == 0 {
			return nil, nil, errors.New("zero")
		}
		return []byte("x"), nil, nil
	}
	n := newNet(t, cfg, "a", "b")
	for _, err := range []error{n.Connect(0, "x", "a"), n.Connect(0, "a", "a")} {
		if err == nil {
			t.Error("a senseless link is accepted")
		}
	}
	if err := n.Connect(0, "a", "b"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{n.Connect(0, "a", "b"), n.Connect(0, "b", "a")} {
		if err == nil {
			t.Error("a second link is accepted")
		}
	}
	drain(n, time.Second)
	if err := n.Send(time.Second, "a", "b", 0); err == nil || !strings.Contains(err.Error(), "encode: zero") {
		t.Errorf("encode: %v", err)
	}
	if err := n.Send(time.Second, "a", "b", 1); err != nil {
		t.Fatal(err)
	}
	for {
		_, d, ok := n.Next(time.Hour)
		if !ok {
			t.Fatal("no delivery")
		}
		if d.Kind == Message {
			if d.Err == nil {
				t.Error("the decoder's error is lost")
			}
			break
		}
	}
}

// mutedNet has a link of a and b over which 1 has gone both ways.
func mutedNet(t *testing.T, replay bool) (n *Net[uint64], send func(at time.Duration, from, to string, v uint64)) {
	cfg := numbersConfig(1)
	cfg.Replay, cfg.Silence, cfg.Window = replay, 5*time.Second, 4
	n = newNet(t, cfg, "a", "b")
	if err := n.Connect(0, "a", "b"); err != nil {
		t.Fatal(err)
	}
	send = func(at time.Duration, from, to string, v uint64) {
		t.Helper()
		if err := n.Send(at, from, to, v); err != nil {
			t.Fatal(err)
		}
	}
	drain(n, time.Second/2)
	send(time.Second/2, "a", "b", 1)
	send(time.Second/2, "b", "a", 1)
	want(t, drain(n, time.Second), "message 1", "message 1")
	return n, send
}

// TestMutedSideIsLate: what a side sends while it is muted, and had sent just before,
// arrives when that is over, in order. What it is sent arrives, until a window is full
// of which it cannot say so.
func TestMutedSideIsLate(t *testing.T) {
	n, send := mutedNet(t, true)
	send(time.Second, "a", "b", 2)
	n.Mute(time.Second, "a", "b")
	for v := range uint64(6) {
		send(time.Second, "b", "a", 10+v)
		send(time.Second, "a", "b", 20+v)
	}
	got := drain(n, 4*time.Second)
	want(t, got, "a<-b message 10", "a<-b message 11", "a<-b message 12", "a<-b message 13")
	if strings.Contains(got, "b<-a") || strings.Contains(got, "14") || strings.Contains(got, "down") {
		t.Errorf("more than a window of what the other sent came:\n%s", got)
	}
	n.Unmute(4*time.Second, "a", "b")
	send(4*time.Second, "a", "b", 30)
	got = drain(n, 10*time.Second)
	want(t, got, "b<-a message 2", "b<-a message 20", "b<-a message 21", "b<-a message 22", "b<-a message 23", "b<-a message 24", "b<-a message 25", "b<-a message 30")
	want(t, got, "a<-b message 14", "a<-b message 15")
	if strings.Count(got, "message") != 10 || strings.Contains(got, "down") {
		t.Errorf("other than what was late:\n%s", got)
	}
	if !n.Idle() {
		t.Error("not idle")
	}
}

// TestSilenceEndsALink: then what had not arrived is replayed on the next connection,
// each message once, or is gone where links do not replay.
func TestSilenceEndsALink(t *testing.T) {
	for _, replay := range []bool{true, false} {
		n, send := mutedNet(t, replay)
		n.Mute(time.Second, "b", "a")
		for v := range uint64(6) {
			send(time.Second, "b", "a", 10+v)
			send(time.Second, "a", "b", 20+v)
		}
		want(t, drain(n, 6*time.Second-time.Millisecond), "b<-a message 20")
		got := drain(n, 9*time.Second)
		want(t, got, fmt.Sprintf("a<-b down final %t", !replay))
		want(t, got, fmt.Sprintf("b<-a down final %t", !replay))
		if strings.Contains(got, " up ") || strings.Contains(got, "message") {
			t.Errorf("what was not to arrive did, replay %t:\n%s", replay, got)
		}
		n.Unmute(9*time.Second, "b", "a")
		got = drain(n, 10*time.Second)
		if !replay {
			if got != "" {
				t.Errorf("a link without replay came back:\n%s", got)
			}
			continue
		}
		want(t, got, "up incarnation 1 resumed true", "a<-b message 10", "a<-b message 11", "a<-b message 15")
		want(t, got, "b<-a message 24", "b<-a message 25")
		if strings.Count(got, "message") != 8 {
			t.Errorf("more or less than what was missing:\n%s", got)
		}
	}
}
