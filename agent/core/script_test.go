package core

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// TestScripts replays the transcripts of testdata: events, and the exact actions
// that follow. Rewrite them with -rewrite and read the difference.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		s := &script{t: t, now: time.Unix(1000, 0), graphs: map[byte]*dag.Graph{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(d)
		})
	})
}

type script struct {
	t      *testing.T
	c      *Core
	now    time.Time
	graphs map[byte]*dag.Graph
	disk   []any           // what the disk was asked for
	sent   []uint64        // grants, in the order in which they were sent
	served comms.DatasetID // that another agent wanted last
	waits  uint64          // how often a run has waited
}

func (s *script) step(ev Event) string {
	s.now = s.now.Add(time.Microsecond)
	var b strings.Builder
	for _, a := range s.c.Step(s.now, ev) {
		fmt.Fprintln(&b, describe(a))
		if p, ok := a.(ToPeer); ok {
			if g, ok := p.Msg.(*comms.Grant); ok {
				for i := range g.Tasks {
					s.sent = append(s.sent, g.Tasks[i].Grant)
				}
			}
		}
		if m, ok := a.(Memory); ok {
			switch m.Effect.(type) {
			case ledger.Spill, ledger.ReadBack:
				s.disk = append(s.disk, m.Effect)
			}
		}
	}
	if err := s.c.Check(); err != nil {
		fmt.Fprintln(&b, "BROKEN:", err)
	}
	if b.Len() == 0 {
		return "ok\n"
	}
	return b.String()
}

func (s *script) words(d *datadriven.TestData) (plain []string, named map[string]string) {
	named = map[string]string{}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			plain = append(plain, a.Key)
			continue
		}
		named[a.Key] = strings.Join(a.Vals, " ")
	}
	return plain, named
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (s *script) run(d *datadriven.TestData) string {
	w, named := s.words(d)
	switch d.Cmd {
	case "agent":
		cfg := Config{Agent: "a1", Dir: "/job", Incarnation: 7, Total: comms.Resources{CPU: 2000, Memory: 1 << 30}, Memory: 1 << 20, ArenaBytes: 1 << 16}
		for k, v := range named {
			switch k {
			case "cpu":
				cfg.Total.CPU = number(v) * 1000
			case "warm":
				cfg.Warm = int(number(v))
			case "executors":
				cfg.MaxExecutors = int(number(v))
			case "waiting":
				cfg.MaxWaiting = int(number(v))
			case "unfused":
				cfg.Unfused = true
			case "gpu":
				cfg.Total.GPU = number(v) * 1000
			case "events-for":
				cfg.EventsFor = s.duration(v)
			case "forward":
				cfg.ForwardAfter = s.duration(v)
			case "records":
				cfg.RecordsKept = int(number(v))
			case "name":
				cfg.Agent = v
			case "host":
				cfg.Total.Custom = append(cfg.Total.Custom, comms.Amount{Name: v, N: 1})
			}
		}
		s.c = New(cfg)
		return s.step(Idle{})
	case "controller":
		switch w[0] {
		case "up":
			return s.step(ControllerUp{Submits: len(w) == 1})
		case "resumed":
			return s.step(ControllerUp{Resumed: true})
		case "full":
			return s.step(Full{})
		case "free":
			return s.step(Free{})
		}
		return s.step(ControllerDown{})
	case "assign":
		return s.assign(d, named)
	case "session": // JOB, assigned; attempt=N
		g, err := dag.NewSession("session work", "a1", "")
		if err != nil {
			s.t.Fatal(err)
		}
		m := &comms.Assign{Job: comms.JobID{byte(number(w[0]))}, Epoch: 1, Dir: "/job", Attempts: []uint32{uint32(number(cmp.Or(named["attempt"], "1")))}, Run: []comms.Range{{}}}
		return s.step(FromController{Msg: m, Graph: g})
	case "program": // KEY says Hello with session JOB; output
		return s.step(Attach{Key: uint64(number(w[0])), Session: comms.JobID{byte(number(w[1]))}, Output: len(w) > 2})
	case "steer":
		actions := map[string]comms.SteerAction{"cancel": comms.SteerCancel, "hold": comms.SteerHold, "release": comms.SteerRelease, "forget": comms.SteerForget}
		if ranks, ok := named["rank"]; ok {
			m := &comms.Steer{Job: comms.JobID{byte(number(w[0]))}, Action: comms.SteerRank, Epoch: uint64(number(cmp.Or(named["epoch"], "1")))}
			var numbers []float64
			for _, f := range strings.Fields(ranks) {
				numbers = append(numbers, float64(number(f)))
			}
			m.Ranks = comms.AppendRanks(nil, numbers)
			return s.step(FromController{Msg: m})
		}
		return s.step(FromController{Msg: &comms.Steer{Job: comms.JobID{byte(number(w[0]))}, Action: actions[w[1]], Reason: named["reason"], JobIncarnation: uint64(number(cmp.Or(named["life"], "0")))}})
	case "read": // what the end of a task that runs will say that it has read
		r := s.c.runOf(s.c.byJob[comms.JobID{1}], taskIndex(number(w[0])))
		return fmt.Sprintf("%016x\n", r.readCause().Number)
	case "drain":
		return s.step(Drain{}) + fmt.Sprintf("drained: %v\n", s.c.Drained())
	case "published": // TASK:ELEMENT by a peer, to whom it belongs; with bytes it lies in the peer's memory
		task, element, _ := strings.Cut(w[0], ":")
		d := comms.Desc{Ref: comms.DatasetRef{Task: taskIndex(number(task)), Element: uint64(number(element))}, Attempt: uint32(number(named["attempt"])),
			Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("x")}}
		if bytes, large := named["bytes"]; large {
			d.Size, d.Place = uint64(number(bytes)), comms.Place{Kind: comms.PlaceAgent, Where: named["by"]}
		}
		return s.step(FromPeer{Agent: named["by"], Msg: &comms.Notice{Job: comms.JobID{1}, Epoch: uint64(number(named["epoch"])), Datasets: []comms.Desc{d}}})
	case "ended": // TASK or TASK:ELEMENTS of a peer, failed
		task, n, stream := strings.Cut(w[0], ":")
		i := taskIndex(number(task))
		m := &comms.Notice{Job: comms.JobID{1}, Epoch: uint64(number(named["epoch"])), Ended: []comms.Ended{{First: i, Last: i, How: comms.OutcomeDone}}}
		if len(w) > 1 && w[1] == "failed" {
			m.Ended[0].How = comms.OutcomeFailed
		}
		if stream {
			m.Ends = []comms.StreamEnd{{Task: i, Count: uint64(number(n))}}
		}
		return s.step(FromPeer{Agent: named["by"], Msg: m})
	case "pulled":
		if len(w) > 1 { // how it failed
			return s.step(PullFailed{Pull: uint64(number(w[0])), Err: w[1]})
		}
		return s.step(Pulled{Pull: uint64(number(w[0]))})
	case "flowed": // AGENT:BYTES:DURATION
		part := strings.Split(w[0], ":")
		took, err := time.ParseDuration(part[2])
		if err != nil {
			return err.Error()
		}
		return s.step(Flowed{Flows: []comms.Flow{{From: part[0], Bytes: uint64(number(part[1])), Pieces: 1, Nanos: uint64(took)}}})
	case "quit":
		return s.step(Quit{})
	case "drained":
		return fmt.Sprintf("%v\n", s.c.Drained())
	case "dismissed":
		return s.step(FromController{Msg: &comms.DrainAgent{Done: true}})
	case "weigh":
		every, err := time.ParseDuration(w[0])
		if err != nil {
			s.t.Fatal(err)
		}
		return s.step(FromController{Msg: &comms.LoadSubscribe{Every: int64(every)}})
	case "spare":
		share, err := strconv.ParseFloat(named["share"], 64)
		least, err2 := strconv.ParseFloat(cmp.Or(named["least"], "0"), 64)
		if err = cmp.Or(err, err2); err != nil {
			s.t.Fatal(err)
		}
		return s.step(FromController{Msg: &comms.StealRequest{Job: comms.JobID{byte(number(w[0]))}, Epoch: uint64(number(cmp.Or(named["epoch"], "1"))),
			Share: share, Least: least, Bandwidth: 1e9, Total: comms.Resources{CPU: 1000 * number(cmp.Or(named["cpu"], "1")), Memory: 1 << 30}}})
	case "gather": // JOB TASK hold, start or pass
		m := &comms.GangCommand{Job: comms.JobID{byte(number(w[0]))}, Epoch: uint64(number(cmp.Or(named["epoch"], "1"))), Task: taskIndex(number(w[1])),
			Step:    map[string]comms.GangStep{"hold": comms.GangReserve, "start": comms.GangStart, "pass": comms.GangAbort}[w[2]],
			Turn:    uint64(number(cmp.Or(named["turn"], "1"))),
			Members: strings.Fields(named["members"])}
		return s.step(FromController{Msg: m})
	case "committed":
		return s.step(FromController{Msg: &comms.Committed{UpTo: uint64(number(w[0]))}})
	case "env":
		id, commands := comms.JobID{byte(number(w[0]))}, len(w) > 2 && w[2] == "commands"
		if why := named["waits"]; why != "" || w[len(w)-1] == "building" {
			return s.step(EnvWaits{Job: id, Name: w[1], Commands: commands, Why: why})
		}
		return s.step(EnvReady{Job: id, Name: w[1], Commands: commands, Key: named["key"], Dir: named["dir"], Err: named["err"]})
	case "executor":
		return s.executor(w, named)
	case "report":
		return s.report(w, named)
	case "call":
		return s.call(w, named)
	case "put":
		d := comms.Desc{Codec: "raw", Size: uint64(len(named["value"])), Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(named["value"])}}
		if named["at"] != "" {
			d = placed(named["at"], named["bytes"])
		}
		return s.step(FromExecutor{comms.ExecutorID(number(w[0])), &comms.Calls{Run: comms.RunID(number(named["run"])),
			Items: []comms.CallItem{{Ref: callRef(named), Inputs: []comms.CallInput{{Data: d}}, Actor: uint64(number(orZero(named["actor"])))}}, Refs: itemRefs(named)}})
	case "listed", "borrow", "tables", "open":
		return s.references(d.Cmd, w, named)
	case "await": // one call, or n items more than were seen
		s.waits++
		m := &comms.CallWait{Run: comms.RunID(number(named["run"])), Wait: uint64(number(cmp.Or(named["wait"], fmt.Sprint(s.waits)))), N: 1, Outside: named["outside"] != ""}
		if n := named["seen"]; n != "" {
			m.Seen, m.N = uint64(number(n)), uint64(number(cmp.Or(named["n"], "1")))
		} else {
			m.Refs = []comms.CallRef{callRef(named)}
		}
		return s.step(FromExecutor{comms.ExecutorID(number(w[0])), m})
	case "read-call":
		return s.step(FromExecutor{comms.ExecutorID(number(w[0])), &comms.CallRead{Run: comms.RunID(number(named["run"])), Ref: callRef(named), Output: uint32(number(cmp.Or(named["output"], "0"))),
			Element: uint64(number(cmp.Or(named["element"], "0")))}})
	case "drop-call", "cancel-call":
		return s.step(FromExecutor{comms.ExecutorID(number(w[0])), &comms.CallDrop{Run: comms.RunID(number(named["run"])), Refs: []comms.CallRef{callRef(named)},
			Cancel: d.Cmd == "cancel-call", Why: named["why"]}})
	case "graph", "assign-graph", "refused", "graph-ends":
		return s.submits(d.Cmd, w, named)
	case "peer", "there", "meet", "grant", "reported", "end-grant", "recall", "wanted", "withdrawn", "log":
		return s.calls(d.Cmd, w, named)
	case "lease":
		return s.step(FromExecutor{comms.ExecutorID(number(w[0])), &comms.LeaseReq{Token: 1, Size: uint64(number(named["size"])), Run: comms.RunID(number(named["run"]))}})
	case "ports":
		ev := PortsLeased{ID: uint64(number(w[0])), Err: named["err"]}
		for _, p := range w[1:] {
			ev.Ports = append(ev.Ports, uint16(number(p)))
		}
		return s.step(ev)
	case "disk": // has done what it was asked for first; "rotten": its file is not what was written
		if len(s.disk) == 0 {
			return "the disk was asked for nothing\n"
		}
		e, rotten := s.disk[0], error(nil)
		if len(w) > 0 && w[0] == "rotten" {
			rotten = errors.New("the checksum differs")
		}
		s.disk = s.disk[1:]
		if e, ok := e.(ledger.Spill); ok {
			return s.step(SpillDone{Key: e.Key, File: "spill"})
		}
		return s.step(ReadBackDone{Key: e.(ledger.ReadBack).Key, Err: rotten})
	case "segment":
		return s.step(SegmentReady{Segment: uint64(number(w[0])), Path: "/dev/shm/s" + w[0]})
	case "fetch":
		if n := named["ends"]; n != "" {
			return s.step(FromClient{9, &comms.Fetch{Req: uint64(number(cmp.Or(named["req"], "4"))), Ends: uint64(number(n))}})
		}
		return s.step(FromClient{9, &comms.Fetch{Req: uint64(number(cmp.Or(named["req"], "4"))), Host: named["host"], Data: comms.DatasetID{Job: comms.JobID{byte(number(w[0]))}, DatasetRef: comms.DatasetRef{Task: taskIndex(number(w[1]))}}}})
	case "left": // the client
		return s.step(ClientGone{9})
	case "pinned": // for clients
		n := 0
		for _, f := range s.c.fetches {
			if s.c.requests[f.pins] != nil {
				n++
			}
		}
		return fmt.Sprintf("%d\n", n)
	case "idle":
		return s.step(Idle{})
	case "tick":
		wait, err := time.ParseDuration(w[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(wait)
		return s.step(Tick{})
	}
	s.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func callRef(named map[string]string) comms.CallRef {
	return comms.CallRef{Strand: uint64(number(cmp.Or(named["strand"], "0"))), Number: uint64(number(cmp.Or(named["number"], "0")))}
}

// placed is a dataset of so many bytes at "segment+offset".
func placed(at, bytes string) comms.Desc {
	segment, offset, _ := strings.Cut(at, "+")
	return comms.Desc{Codec: "raw", Size: uint64(number(bytes)), Place: comms.Place{Kind: comms.PlaceSegment, Segment: uint32(number(segment)), Offset: uint64(number(offset))}}
}

// call makes one call of a function of one input.
func (s *script) call(w []string, named map[string]string) string {
	in := comms.CallInput{}
	switch {
	case named["at"] != "":
		in.Data = placed(named["at"], named["bytes"])
	case named["borrowed"] != "":
		in.From, in.Ref = comms.FromCall, comms.CallRef{Strand: borrowedStrand, Number: uint64(number(named["borrowed"]))}
	case named["value"] != "":
		v := named["value"]
		in.Data = comms.Desc{Codec: "raw", Size: uint64(len(v)), Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(v)}}
	case named["input"] != "":
		in.From, in.Input = comms.FromInput, uint32(number(named["input"]))
		if n := named["given"]; n != "" { // so many bytes of attempt 1, as the run was told
			in.Data = comms.Desc{Attempt: 1, Codec: "raw", Size: uint64(number(n)), Place: comms.Place{Kind: comms.PlaceSegment, Segment: 1}}
		}
	default:
		in.From, in.Ref, in.Output = comms.FromCall, comms.CallRef{Number: uint64(number(named["earlier"]))}, uint32(number(cmp.Or(named["output"], "0")))
	}
	k := comms.CallKind{ID: 1, Function: "F", Inputs: []comms.KindIn{{Name: "x"}}, Outputs: []comms.KindOut{{Name: "y"}},
		Resources: comms.Resources{GPU: 1000 * number(cmp.Or(named["gpu"], "0"))}, Retries: uint32(number(cmp.Or(named["retries"], "0"))), Here: named["here"] != "", Stateful: named["stateful"] != "", Environment: named["env"]}
	if e := named["retry-on"]; e != "" {
		k.RetryOn = []string{e}
	}
	if named["outputs"] == "2" {
		k.Outputs = append(k.Outputs, comms.KindOut{Name: "z"})
	}
	if named["stream"] != "" {
		k.Outputs[0].Generate = dag.GenerateOpen
	}
	return s.step(FromExecutor{comms.ExecutorID(number(w[0])), &comms.Calls{Run: comms.RunID(number(named["run"])), Once: named["once"] != "", Kinds: []comms.CallKind{k},
		Items: []comms.CallItem{{Ref: callRef(named), Kind: 1, Name: named["name"], Inputs: []comms.CallInput{in}}}, Refs: itemRefs(named)}})
}

func (s *script) duration(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// calls is what concerns calls that go from agent to agent.
func (s *script) calls(cmd string, w []string, named map[string]string) string {
	place := func(d *comms.Desc) { // inline, or with bytes at the other agent
		d.Attempt, d.Codec, d.Size, d.Place = 1, "raw", 2, comms.Place{Kind: comms.PlaceInline, Bytes: []byte("ok")}
		if n := named["bytes"]; n != "" {
			d.Size, d.Place = uint64(number(n)), comms.Place{Kind: comms.PlaceAgent, Where: "b"}
		}
	}
	switch cmd {
	case "peer": // AGENT up, resumed, down or over; incarnation=N that came up
		switch w[1] {
		case "up", "resumed":
			return s.step(PeerUp{Agent: w[0], Incarnation: uint64(number(cmp.Or(named["incarnation"], "0"))), Resumed: w[1] == "resumed"})
		}
		return s.step(PeerDown{Agent: w[0], Over: w[1] == "over"})
	case "there": // NUMBER [AGENT:CALLS[/SLOTS] ...]
		m := &comms.There{Ask: uint64(number(w[0])), Why: named["why"]}
		for _, h := range w[1:] {
			agent, n, _ := strings.Cut(h, ":")
			n, slots, _ := strings.Cut(n, "/")
			m.Hosts = append(m.Hosts, comms.Host{Agent: agent, Incarnation: 1, Addresses: []string{"tcp://" + agent}, Calls: uint64(number(n)), Slots: uint64(number(cmp.Or(slots, "0")))})
		}
		return s.step(FromController{Msg: m})
	case "meet":
		return s.step(FromController{Msg: &comms.Meet{Host: comms.Host{Agent: w[0], Incarnation: 1, Addresses: []string{"tcp://" + w[0]}}}})
	case "reported": // the N-th call that was granted, by b or agent=NAME
		it := comms.GrantItem{Grant: s.sent[number(w[0])-1], Text: []byte(named["text"]), Back: named["back"], Over: len(w) > 1, Of: comms.JobID{0xb}}
		if len(w) > 1 && w[1] == "finished" {
			it.Event = &comms.Event{Kind: comms.EventFinished, Attempt: 1, Usage: &comms.Usage{Duration: number(cmp.Or(named["ms"], "1")) * 1e6}}
			it.Outputs = make([]comms.Desc, 1)
			place(&it.Outputs[0])
			if named["outputs"] == "2" { // the second inline, unless both are large
				if named["large"] == "" {
					delete(named, "bytes")
				}
				it.Outputs = append(it.Outputs, comms.Desc{Ref: comms.DatasetRef{Output: 1}})
				place(&it.Outputs[1])
			}
		} else if len(w) > 1 && w[1] == "failed" {
			it.Event = &comms.Event{Kind: comms.EventFailed, Attempt: 1, Error: &comms.TaskError{Kind: comms.ErrorTask, Message: "it broke", Task: "a/0", Agent: "b"}}
		} else if len(w) > 1 && w[1] == "published" || named["event"] == "finished" { // which no host says
			it.Event = &comms.Event{Kind: comms.EventPublished, Attempt: 1}
			if named["event"] != "" {
				it.Event.Kind = comms.EventFinished
			}
		} else if named["called"] != "" {
			it.Event = &comms.Event{Kind: comms.EventCall, Count: 1, Cause: comms.Cause{Kind: comms.CauseTask, Text: named["called"]}}
		}
		return s.step(FromPeer{Agent: cmp.Or(named["agent"], "b"), Msg: &comms.GrantReport{Items: []comms.GrantItem{it}}})
	case "recall": // NUMBER ..., by b
		m := &comms.GrantRecall{}
		for _, n := range w {
			m.Grants = append(m.Grants, uint64(number(n)))
		}
		return s.step(FromPeer{Agent: "b", Msg: m})
	case "grant": // NUMBER, by b
		m := granted(comms.CallKind{Inputs: []comms.KindIn{{Name: "x"}}, Resources: comms.Resources{GPU: 1000 * number(cmp.Or(named["gpu"], "0"))}})
		var envs []dag.Environment
		for _, name := range strings.FieldsFunc(named["envs"], func(r rune) bool { return r == '+' }) {
			envs = append(envs, dag.Environment{Name: name, Go: "./" + name})
		}
		m.Environment = encodeEnvironments(envs)
		in := comms.GrantInput{Of: comms.DatasetID{Job: comms.JobID{1}, DatasetRef: comms.DatasetRef{Task: 3}}}
		place(&in.Data)
		m.Tasks = []comms.GrantTask{{Grant: uint64(number(w[0])), Name: "fit[4]/0", Inputs: []comms.GrantInput{in}}}
		return s.step(FromPeer{Agent: "b", Msg: m})
	case "wanted", "withdrawn": // what the N-th call that came has returned; task=T what job 1 has of that
		if task, named := named["task"]; named {
			return s.step(Wanted{Data: comms.DatasetID{Job: comms.JobID{1}, DatasetRef: comms.DatasetRef{Task: taskIndex(number(task))}}, Attempt: 1})
		}
		at := s.c.hosts[grantKey{"b", uint64(number(w[0]))}]
		if at.job != nil {
			s.served = comms.DatasetID{Job: at.job.id, DatasetRef: comms.DatasetRef{Task: at.task}}
		}
		id := s.served
		if cmd == "wanted" {
			return s.step(Wanted{Data: id, Attempt: 1})
		}
		return s.step(Withdrawn{Data: id, Attempt: 1})
	case "log":
		return s.step(FromExecutor{comms.ExecutorID(number(w[0])), &comms.Log{Run: comms.RunID(number(named["run"])), Stream: 1, Text: []byte(named["text"])}})
	}
	return s.step(FromPeer{Agent: "b", Msg: &comms.GrantEnd{Grants: []uint64{uint64(number(w[0]))}}})
}

func (s *script) assign(d *datadriven.TestData, named map[string]string) string {
	m := &comms.Assign{Job: comms.JobID{1}, Epoch: 1, Dir: "/job"}
	var paths [][]taskIndex
	made := uint32(1)
	for k, v := range named {
		switch k {
		case "job":
			m.Job[0] = byte(number(v))
		case "epoch":
			m.Epoch = uint64(number(v))
		case "life":
			m.JobIncarnation = uint64(number(v))
		case "tenant":
			m.Tenant = v
		case "weight":
			m.Weight = uint32(number(v))
		case "priority":
			m.Priority = number(v)
		case "peer": // AGENT or AGENT@INCARNATION, without tasks of the job, or with one or FIRST-LAST behind a colon
			agent, task, has := strings.Cut(v, ":")
			agent, incarnation, _ := strings.Cut(agent, "@")
			m.Peers = []comms.Assignment{{Agent: agent, Incarnation: uint64(number(cmp.Or(incarnation, "0")))}}
			if has {
				first, last, _ := strings.Cut(task, "-")
				m.Peers[0].Run = []comms.Range{{First: taskIndex(number(first)), Last: taskIndex(number(cmp.Or(last, first)))}}
			}
		case "larger": // MiB
			m.Larger = uint64(number(v)) << 20
		case "memory": // MiB of each group
			for _, f := range strings.Fields(v) {
				m.Memory = append(m.Memory, uint64(number(f))<<20)
			}
		case "enlarged": // TASK:MiB:TIMES
			f := strings.Split(v, ":")
			m.Enlarged = []comms.Enlarged{{Task: taskIndex(number(f[0])), Memory: uint64(number(f[1])) << 20, Times: uint32(number(f[2]))}}
		case "tried": // TASK:FAILS
			task, fails, _ := strings.Cut(v, ":")
			m.Tried = []comms.GangTries{{Task: taskIndex(number(task)), Fails: uint32(number(fails))}}
		case "hold":
			m.Hold = true
		case "seconds":
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			m.Seconds = []float64{f}
		case "registry":
			m.Registry = []comms.FuncSig{{Name: "F", Sig: v}}
		case "attempts":
			for _, f := range strings.Fields(v) {
				m.Attempts = append(m.Attempts, uint32(number(f)))
			}
		case "run":
			for _, f := range strings.Fields(v) {
				m.Run = append(m.Run, comms.Range{First: taskIndex(number(f)), Last: taskIndex(number(f))})
			}
		case "done", "failed":
			for _, f := range strings.Fields(v) {
				i := taskIndex(number(f))
				m.Ended = append(m.Ended, comms.Ended{First: i, Last: i, How: map[string]comms.Outcome{"done": comms.OutcomeDone, "failed": comms.OutcomeFailed}[k]})
			}
		case "data":
			for _, f := range strings.Fields(v) { // TASK or TASK:ELEMENT
				task, element, _ := strings.Cut(f, ":")
				ref := comms.DatasetRef{Task: taskIndex(number(task)), Element: uint64(number(cmp.Or(element, "0")))}
				m.Datasets = append(m.Datasets, comms.Desc{Ref: ref, Attempt: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("x")}})
			}
		case "broke", "ends": // TASK:ELEMENTS of a generator that failed after so many, or made so many
			task, n, _ := strings.Cut(v, ":")
			m.Ends = append(m.Ends, comms.StreamEnd{Task: taskIndex(number(task)), Count: uint64(number(n)), Failed: k == "broke"})
		case "away":
			for _, f := range strings.Fields(v) {
				i := taskIndex(number(f))
				m.Datasets = append(m.Datasets, comms.Desc{Ref: comms.DatasetRef{Task: i}, Attempt: 1, Place: comms.Place{Kind: comms.PlaceSegment, Segment: 9}})
			}
		case "far": // AGENT:TASK:ELEMENT:BYTES
			for _, f := range strings.Fields(v) {
				at := strings.Split(f, ":")
				m.Datasets = append(m.Datasets, comms.Desc{Ref: comms.DatasetRef{Task: taskIndex(number(at[1])), Element: uint64(number(at[2]))}, Attempt: 1,
					Size: uint64(number(at[3])), Place: comms.Place{Kind: comms.PlaceAgent, Where: at[0]}})
			}
		case "made": // for the datasets: by that attempt, with other bytes than the first
			made = uint32(number(v))
		case "attempt":
			m.Attempts = []uint32{uint32(number(v))}
		case "fuse":
			var path []taskIndex
			for _, f := range strings.Fields(v) {
				path = append(path, taskIndex(number(f)))
			}
			paths = append(paths, path)
		}
	}
	for i := range m.Datasets {
		if d := &m.Datasets[i]; made > 1 {
			d.Attempt = made
			if d.Place.Kind == comms.PlaceInline {
				d.Place.Bytes = fmt.Appendf(nil, "x%d", made)
			}
		}
	}
	if paths != nil {
		m.Fuse = comms.AppendPaths(nil, paths)
	}
	if d.Input != "" {
		g, err := dag.ParseYAML("job.yaml", []byte(d.Input), dag.Override{}, dag.Options{})
		if err != nil {
			s.t.Fatalf("%s: %v", d.Pos, err)
		}
		s.graphs[m.Job[0]] = g
	}
	return s.step(FromController{Msg: m, Graph: s.graphs[m.Job[0]]})
}

func (s *script) executor(w []string, named map[string]string) string {
	id := comms.ExecutorID(number(w[0]))
	switch w[1] {
	case "spawned":
		return s.step(Spawned{Executor: id, PID: 100 + int64(id), ControlPage: "/page", Scratch: "/scratch", ShmDir: "/dev/shm", Err: named["err"]})
	case "hello":
		m := &comms.Hello{Functions: []comms.FuncSig{{Name: "F", Sig: "()"}, {Name: "G", Sig: "(a raw, with {n int}) -> (b raw)"}}}
		return s.step(FromExecutor{id, m})
	case "broken":
		return s.step(ExecutorBroken{id, "connection reset"})
	case "dead":
		ev := ExecutorDead{Executor: id, Why: "signal: killed", Signal: "killed"}
		if r := named["run"]; r != "" {
			ev.Run = comms.RunID(number(r))
		}
		ev.ReadOnly = named["readonly"] != ""
		if m := named["memory"]; m != "" { // MiB that it used
			ev.Memory, ev.Used, ev.Why, ev.Signal = true, number(m)<<20, "it used "+m+"MiB", ""
		}
		return s.step(ev)
	case "reclaimed":
		m := &comms.Reclaimed{}
		for _, r := range w[2:] {
			m.Runs = append(m.Runs, comms.RunID(number(r)))
		}
		return s.step(FromExecutor{id, m})
	}
	s.t.Fatalf("unknown event %s of an executor", w[1])
	return ""
}

func (s *script) report(w []string, named map[string]string) string {
	it := comms.ReportItem{Run: comms.RunID(number(w[2]))}
	out := func() {
		d := comms.Desc{Codec: "raw", Size: 2, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("ok")}}
		if o := named["output"]; o != "" {
			d.Ref.Output = uint32(number(o))
		}
		if e := named["element"]; e != "" {
			d.Ref.Element = uint64(number(e))
		}
		if at := named["at"]; at != "" {
			d.Size = uint64(number(cmp.Or(named["bytes"], "4096")))
			f := strings.Split(at, "+")
			d.Place = comms.Place{Kind: comms.PlaceSegment, Segment: uint32(number(f[0])), Offset: uint64(number(f[1]))}
		}
		it.Outputs = append(it.Outputs, d)
		if also := named["also"]; also != "" { // another, in the message
			it.Outputs = append(it.Outputs, comms.Desc{Ref: comms.DatasetRef{Output: uint32(number(also))}, Codec: "raw", Size: 2, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte("ok")}})
		}
	}
	switch w[1] {
	case "started":
		it.Kind = comms.ReportStarted
	case "published":
		it.Kind = comms.ReportPublished
		out()
	case "finished":
		it.Kind = comms.ReportFinished
		if n := named["count"]; n != "" {
			it.Counts = []comms.StreamEnd{{Count: uint64(number(n))}}
		}
		it.Usage = &comms.Usage{Duration: int64(50 * time.Microsecond)}
		if named["took"] != "" {
			took, err := time.ParseDuration(named["took"])
			if err != nil {
				s.t.Fatal(err)
			}
			it.Usage.Duration = int64(took)
		}
		if len(w) < 4 {
			out()
		}
	case "succeeded": // so many in a row
		it.Kind = comms.ReportSteps
		usages := make([]comms.Usage, number(w[3]))
		for i := range usages {
			usages[i] = comms.Usage{Duration: int64(50 * time.Microsecond)}
		}
		it.Steps = comms.AppendUsages(nil, usages)
	case "failed":
		it.Kind = comms.ReportFailed
		it.Error = &comms.TaskError{Kind: comms.ErrorTask, Message: named["error"]}
		if code := named["code"]; code != "" {
			it.Error.Codes = []string{code}
		}
	case "cancelled": // while it ran
		it.Kind, it.Usage = comms.ReportFailed, &comms.Usage{Duration: int64(50 * time.Microsecond)}
		it.Error = &comms.TaskError{Kind: comms.ErrorCancelled, Message: "cancelled"}
	case "unbegun": // cancelled while it was queued
		it.Kind, it.Error = comms.ReportFailed, &comms.TaskError{Kind: comms.ErrorCancelled}
	case "held":
		it.Kind = comms.ReportThrottled
	case "resumed":
		it.Kind = comms.ReportResumed
	}
	return s.step(FromExecutor{comms.ExecutorID(number(w[0])), &comms.Report{Items: []comms.ReportItem{it}}})
}
