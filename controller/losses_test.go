package controller

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

// That an agent was lost is told as long as its tasks wait for it, and in the story later
// too: when, how, with which tasks, and whether it came back.
func TestLostAgent(t *testing.T) {
	net, dir := comms.NewInproc(), t.TempDir()
	r := startController(t, dir, net)
	agent := dialAgent(t, net, &fakeAgent{name: "node2", hold: true})
	c := dialClient(t, net)
	submit(c, 1, parse(t, job1).Encode())
	expect[*comms.Accepted](c, "accepted", nil)
	expect[*comms.Assign](agent.peerEnd, "assign", nil)
	agent.say(&comms.Events{First: 1, Jobs: []comms.JobEvents{{Job: testJob(1), JobIncarnation: agent.jobs[testJob(1)].JobIncarnation, Epoch: 1, Events: []comms.Event{
		{Kind: comms.EventStarted, Task: 0, Attempt: 1, At: 1}, {Kind: comms.EventStarted, Task: 1, Attempt: 1, At: 2}}}}})
	until := func(what string, done func(all []comms.LossRow) bool) []comms.LossRow {
		t.Helper()
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if all := rows[comms.LossRow](c, comms.Query{Kind: comms.QueryLosses, Job: testJob(1)}, 1); done(all) {
				return all
			}
		}
		t.Fatalf("never %s", what)
		return nil
	}
	for len(rows[comms.TaskRow](c, comms.Query{Kind: comms.QueryTasks, Job: testJob(1), Filter: "running"}, 10)) < 2 { // each asks the controller
	}
	until("without a loss", func(all []comms.LossRow) bool { return len(all) == 0 })
	agent.linked().Abort(errors.New("the cable is out"))
	until("awaited", func(all []comms.LossRow) bool { return len(all) == 1 && all[0].Awaited })
	said := make(chan struct{})
	again := &fakeAgent{name: agent.name, inc: agent.inc, hold: true, jobs: agent.jobs} // the same process
	again.peerEnd = &peerEnd{on: again.message, up: func(p *peerEnd) {
		again.hello(p)
		close(said)
	}}
	dialPeer(t, net, again.peerEnd, comms.Identity{Role: "agent", Name: again.name, Incarnation: again.inc})
	until("back", func(all []comms.LossRow) bool { return len(all) == 1 && all[0].Back != "" && !all[0].Awaited })
	<-said
	again.close()
	all := until("awaited", func(all []comms.LossRow) bool { return len(all) == 2 && all[1].Awaited })
	for i, l := range all {
		then := []string{"its 4 tasks waited for it", "its 2 tasks restart after a grace of 30 s"}[i]
		if l.Agent != "node2" || l.Why != "connection closed" || l.Running != 2 || l.Waiting != 2 || l.Grace != 30 || l.Then != then {
			t.Errorf("loss %d: %+v", i, l)
		}
	}
	see := func() {
		t.Helper()
		for filter, want := range map[string][]string{
			"":     {"a[0] started", "a[1] started", " agent lost connection closed", " agent back", " agent lost connection closed"},
			"a[1]": {"a[1] started", "a[1] agent lost connection closed", "a[1] agent back", "a[1] agent lost connection closed"},
		} {
			for _, limit := range []uint32{1, 2, 10} {
				var got []string
				for _, row := range rows[comms.StoryRow](c, comms.Query{Kind: comms.QueryStory, Job: testJob(1), Filter: filter}, limit) {
					text := row.Task + " " + row.What
					if row.What == "agent lost" {
						text += " " + row.Cause
					}
					got = append(got, text)
				}
				if !slices.Equal(got, want) {
					t.Errorf("story of %q by %d: %q, want %q", filter, limit, got, want)
				}
			}
		}
	}
	see()
	next := dialAgent(t, net, &fakeAgent{name: "node2", inc: 2, hold: true}) // another process
	t.Cleanup(next.close)
	until("given up", func(all []comms.LossRow) bool {
		return len(all) == 2 && !all[1].Awaited && all[1].Open && !all[0].Open && all[1].Back == "" && all[1].Then == "its 2 tasks restarted at once"
	})
	expect[*comms.Assign](next.peerEnd, "assign", nil)
	var starts []string
	for _, row := range rows[comms.StoryRow](c, comms.Query{Kind: comms.QueryStory, Job: testJob(1), Filter: "a[1]"}, 10) {
		if row.What == "starts over" {
			starts = append(starts, row.Cause)
		}
	}
	if !slices.Equal(starts, []string{"lost with agent node2"}) {
		t.Errorf("it starts over because %q", starts)
	}
	c.close()
	r.stop(t)
	startController(t, dir, net) // the same of what was stored
	c = dialClient(t, net)
	t.Cleanup(c.close)
	if all := rows[comms.LossRow](c, comms.Query{Kind: comms.QueryLosses, Job: testJob(1)}, 10); len(all) != 2 || all[0].Back == "" || all[1].Grace != 0 {
		t.Errorf("losses %+v", all)
	}
	c.say(&comms.Control{Req: 2, Job: testJob(1), Action: comms.SteerCancel, Reason: "done with it"})
	expect(c, "answer", func(r *comms.Reply) bool { return r.Req == 2 })
}

// Of a job that is cancelled while its agent is away nothing restarts or goes on: what was told
// of the loss stays, and the agent is not awaited.
func TestLossOfACancelledJob(t *testing.T) {
	net := comms.NewInproc()
	r := startController(t, t.TempDir(), net)
	agent := dialAgent(t, net, &fakeAgent{name: "node2", hold: true})
	c := dialClient(t, net)
	t.Cleanup(c.close)
	submit(c, 1, parse(t, job1).Encode())
	expect[*comms.Accepted](c, "accepted", nil)
	expect[*comms.Assign](agent.peerEnd, "assign", nil)
	losses := func() []comms.LossRow {
		return rows[comms.LossRow](c, comms.Query{Kind: comms.QueryLosses, Job: testJob(1)}, 10)
	}
	agent.linked().Abort(errors.New("the cable is out"))
	for end := time.Now().Add(patience); len(losses()) == 0; { // each asks the controller
		if time.Now().After(end) {
			t.Fatal("the loss is never told")
		}
	}
	c.say(&comms.Control{Req: 2, Job: testJob(1), Action: comms.SteerCancel, Reason: "done with it"})
	expect(c, "answer", func(r *comms.Reply) bool { return r.Req == 2 })
	if all := losses(); len(all) != 1 || all[0].Awaited {
		t.Errorf("after the job was cancelled: %+v", all)
	}
	next := dialAgent(t, net, &fakeAgent{name: "node2", inc: 2, hold: true}) // another process
	t.Cleanup(next.close)
	final(c)
	if all := losses(); len(all) != 1 || all[0].Awaited || all[0].Back != "" || all[0].Grace != 30 {
		t.Errorf("after the agent came back: %+v", all)
	}
	r.turns.Lock()
	defer r.turns.Unlock()
	if len(r.losses) != 0 {
		t.Errorf("losses that are kept in memory: %+v", r.losses)
	}
}

func TestLossText(t *testing.T) {
	one, some := []comms.Range{{First: 3, Last: 3}}, []comms.Range{{First: 0, Last: 5}, {First: 8, Last: 8}}
	for _, tt := range []struct {
		loss  records.Loss
		ended int64
		want  string
	}{
		{records.Loss{Runs: some, Waiting: some, Grace: 30e9}, 0, "its 7 tasks restart after a grace of 30 s"},
		{records.Loss{Runs: one, Grace: 500e6}, 0, "its task restarts after a grace of 0.5 s"},
		{records.Loss{Runs: some}, 0, "its 7 tasks restart at once"},
		{records.Loss{Waiting: one, Grace: 30e9}, 0, "its task, which has not begun, moves after a grace of 30 s"},
		{records.Loss{Waiting: some, Grace: 600e9}, 0, "its 7 tasks, which have not begun, move after a grace of 10 minutes"},
		{records.Loss{Runs: some, Grace: 30e9, Restart: 31e9}, 0, "its 7 tasks restarted after a grace of 30 s"},
		{records.Loss{Runs: some, Grace: 30e9, Restart: 31e9, Others: 3}, 0, "its 7 tasks restarted after a grace of 30 s, and 3 other tasks restarted"},
		{records.Loss{Waiting: one, Restart: 1, Others: 1}, 0, "its task, which had not begun, moved at once, and 1 other task restarted"},
		{records.Loss{Runs: one, Waiting: one, Grace: 30e9, Back: 5e9}, 60e9, "its 2 tasks waited for it"},
		{records.Loss{Runs: one, Grace: 30e9}, 29e9, "its task waited for it"},
		{records.Loss{Runs: one, Grace: 30e9}, 30e9, "its task was lost with it"},
	} {
		if got := lossText(&tt.loss, tt.ended, false); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.loss, got, tt.want)
		}
	}
	if got, want := lossText(&records.Loss{Runs: some}, 0, true), "its 7 tasks restart when an agent is there"; got != want {
		t.Errorf("without an agent: %s, want %s", got, want)
	}
	for _, tt := range []struct {
		err  error
		why  records.LossCause
		want string
	}{
		{fmt.Errorf("read: %w", io.EOF), records.LossClosed, "connection closed"},
		{fmt.Errorf("%w: %w", comms.ErrClosed, io.EOF), records.LossClosed, "connection closed"},
		{fmt.Errorf("%w: nothing heard for 10s", comms.ErrSilent), records.LossSilent, "nothing heard for 10s"},
		{fmt.Errorf("%w: %w", comms.ErrClosed, comms.ErrSilent), records.LossSilent, "nothing heard"},
		{fmt.Errorf("%w: %w: nothing listens there", comms.ErrClosed, errGone), records.LossEnded, "process ended"},
		{errors.New("no route to host"), records.LossFailed, "no route to host"},
	} {
		var l records.Loss
		if l.Cause, l.Why = lossCause(tt.err); l.Cause != tt.why || l.Text() != tt.want {
			t.Errorf("%v: %v, %s, want %v, %s", tt.err, l.Cause, l.Text(), tt.why, tt.want)
		}
	}
}
