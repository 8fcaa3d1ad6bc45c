package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// up connects a peer; an agent registers and sends its snapshot, a line a job:
// "job=1 epoch=1 have=a.x;b.x running=a".
func (w *world) up(d *datadriven.TestData, who string) {
	w.next++
	w.links[who] = w.next
	inc := number(arg(d, "incarnation", "1"))
	w.step(LinkUp{Link: w.next, Agent: d.Cmd == "agent", Name: who, Incarnation: inc})
	if d.Cmd == "client" {
		return
	}
	total := comms.Resources{CPU: int64(number(arg(d, "cpu", "4"))) * 1000, GPU: int64(number(arg(d, "gpu", "0"))) * 1000, Memory: int64(number(arg(d, "memory", "0"))) << 20}
	for i, gib := range strings.FieldsFunc(arg(d, "devices", ""), func(r rune) bool { return r == ';' }) {
		total.Devices = append(total.Devices, comms.Device{Name: strconv.Itoa(i), Memory: int64(number(gib)) << 30})
		total.GPU += 1000
	}
	if has(d, "sessions") {
		total.Custom = []comms.Amount{{Name: dag.AgentResource(who), N: 1e12}}
	}
	w.step(Received{w.next, &comms.Register{Agent: who, Incarnation: inc, Total: total,
		Takes: !has(d, "old"), Gathers: !has(d, "old"), Platform: arg(d, "platform", ""), Store: int64(number(arg(d, "store", "0"))) << 20, Addresses: []string{"ipc:///" + who}}})
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		if line == "" {
			continue
		}
		js := comms.JobState{}
		life := ""
		for _, f := range strings.Fields(line) {
			k, v, _ := strings.Cut(f, "=")
			switch k {
			case "job":
				js.Job = testJob(v)
			case "life":
				life = v
			case "drained":
				js.Drained = true
			case "running":
				i, ok := w.graphs["g"].Lookup(v)
				if !ok {
					w.t.Fatalf("no task %q", v)
				}
				js.Running = append(js.Running, i)
			case "epoch":
				js.Epoch = number(v)
			case "have":
				k := w.kept[js.Job]
				for _, name := range strings.Split(v, ";") {
					refs, _, err := Resolve(k.Graph, k.Past().States, name)
					if err != nil {
						w.t.Fatal(err)
					}
					for _, r := range refs {
						js.Datasets = append(js.Datasets, comms.Desc{Ref: r, Place: comms.Place{Kind: comms.PlaceSegment}})
					}
				}
			}
		}
		js.JobIncarnation = w.life(js.Job, life)
		w.step(Received{w.next, &comms.Snapshot{Jobs: []comms.JobState{js}}})
	}
	w.step(Received{w.next, &comms.Snapshot{Done: true}})
}

// events reads lines such as "finished a[1] attempt=1 inline", "finished a private", "failed b why",
// "finished b bytes=B read=a.x:A" (what it has made, and read of which dataset),
// "published g elements=2", "streamend g count=2", "lost a.x", "lost g element=1", "building e at=1", "building e waits=why", "built e at=4", "drained".
func (w *world) events(d *datadriven.TestData, job comms.JobID) (*comms.Events, error) {
	m := &comms.Events{First: number(arg(d, "first", "1")), Jobs: []comms.JobEvents{{Job: job, JobIncarnation: w.life(job, arg(d, "life", "")),
		Epoch: number(arg(d, "epoch", strconv.FormatUint(w.assigned[job].Epoch, 10)))}}}
	kinds := map[string]comms.EventKind{"ready": comms.EventReady, "started": comms.EventStarted, "published": comms.EventPublished, "finished": comms.EventFinished,
		"retry": comms.EventRetry, "failed": comms.EventFailed, "skipped": comms.EventSkipped, "cancelled": comms.EventCancelled,
		"streamend": comms.EventStreamEnd, "lost": comms.EventLost, "drained": comms.EventDrained, "held": comms.EventAdopted,
		"building": comms.EventBuilding, "built": comms.EventEnv, "torn": comms.EventTorn}
	g := w.graphs[arg(d, "graph", "g")]
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		f := strings.Fields(line)
		e := comms.Event{Kind: kinds[f[0]], Attempt: 1}
		if e.Kind == 0 {
			return nil, fmt.Errorf("unknown event %q", f[0])
		}
		if e.Kind == comms.EventBuilding || e.Kind == comms.EventEnv {
			e.Cause.Text = f[1]
		} else if len(f) > 1 {
			i, ok := g.Lookup(strings.TrimSuffix(f[1], ".x"))
			if !ok {
				return nil, fmt.Errorf("no task %q", f[1])
			}
			e.Task = i
		}
		place, elements, element, made := comms.PlaceSegment, uint64(0), uint64(0), ""
		for _, o := range f[min(2, len(f)):] {
			k, v, _ := strings.Cut(o, "=")
			switch k {
			case "attempt":
				e.Attempt = attemptOf(v)
			case "count":
				e.Count = number(v)
			case "memory": // MiB that the next attempt is to have
				e.Count = number(v) << 20
			case "at":
				e.At = int64(number(v)) * 1e9
			case "elements":
				elements = number(v)
			case "element":
				element = number(v)
			case "waits":
				e.Error = &comms.TaskError{Kind: comms.ErrorSetup, Message: v}
			case "inline":
				place = comms.PlaceInline
			case "nowhere":
				place = comms.PlaceNone
			case "bytes":
				made = v
			case "read":
				name, text, _ := strings.Cut(v, ":")
				refs, _, err := Resolve(g, NewStates(g), name)
				if err != nil {
					return nil, err
				}
				d := comms.Desc{Hash: comms.HashOf([]byte(text))}
				e.Cause.Number = comms.Read(e.Cause.Number, refs[0], d.Sum())
			case "stranger":
				e.Cause.Kind = comms.CauseSubmit
			case "cause": // the task for which one was skipped
				i, ok := g.Lookup(v)
				if !ok {
					return nil, fmt.Errorf("no task %q", v)
				}
				e.Cause = comms.Cause{Kind: comms.CauseTask, Ref: comms.DatasetRef{Task: i}}
			}
		}
		switch e.Kind {
		case comms.EventAdopted:
			e.Outputs = []comms.Desc{{Ref: comms.DatasetRef{Task: e.Task}, Attempt: e.Attempt, Place: comms.Place{Kind: place}}}
		case comms.EventFinished:
			if g.Group(e.Task).Outputs[0].Generate == dag.GenerateNone && !slices.Contains(f, "private") {
				e.Outputs = []comms.Desc{{Ref: comms.DatasetRef{Task: e.Task}, Attempt: e.Attempt, Place: comms.Place{Kind: place}}}
			}
			e.Usage = &comms.Usage{Duration: 1e9, BytesOut: 10}
		case comms.EventPublished:
			for k := range elements {
				e.Outputs = append(e.Outputs, comms.Desc{Ref: comms.DatasetRef{Task: e.Task, Element: k}, Attempt: e.Attempt, Place: comms.Place{Kind: place}})
			}
		case comms.EventFailed, comms.EventTorn:
			if !slices.Contains(f, "grown") { // for more memory, which is no failure
				e.Error = &comms.TaskError{Kind: comms.ErrorTask, Message: "it broke", Task: g.TaskName(e.Task), Attempt: e.Attempt, Agent: "a1"}
			}
		case comms.EventLost:
			e.Cause.Ref = comms.DatasetRef{Task: e.Task, Element: element}
		}
		for k := range e.Outputs {
			if d := &e.Outputs[k]; made != "" && d.Place.Kind == comms.PlaceInline {
				d.Place.Bytes = []byte(made)
			} else if made != "" {
				d.Hash = comms.HashOf([]byte(made))
			}
		}
		m.Jobs[0].Events = append(m.Jobs[0].Events, e)
	}
	return m, nil
}
