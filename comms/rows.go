package comms

import "fmt"

// Rows of Query answers. They are encoded as msgpack maps and printed as JSON
// with the same names. Times are RFC 3339 with nanoseconds, durations seconds,
// sizes bytes.

// JobRow is a row of QueryJobs.
type JobRow struct {
	ID        string   `json:"id" msgpack:"id"`
	Name      string   `json:"name" msgpack:"name"`
	Phase     string   `json:"phase" msgpack:"phase"`
	Tenant    string   `json:"tenant,omitempty" msgpack:"tenant,omitempty"`
	Priority  int64    `json:"priority" msgpack:"priority"`
	Labels    []string `json:"labels,omitempty" msgpack:"labels,omitempty"`
	Tasks     uint64   `json:"tasks" msgpack:"tasks"`
	Done      uint64   `json:"done" msgpack:"done"`
	Failed    uint64   `json:"failed" msgpack:"failed"`
	Submitted string   `json:"submitted" msgpack:"submitted"`
	Ended     string   `json:"ended,omitempty" msgpack:"ended,omitempty"`
	Error     string   `json:"error,omitempty" msgpack:"error,omitempty"`
	Dir       string   `json:"dir,omitempty" msgpack:"dir,omitempty"`
	Waits     string   `json:"waits,omitempty" msgpack:"waits,omitempty"` // why nothing of it runs, if that is known
}

// TaskRow is a row of QueryTasks.
type TaskRow struct {
	Name     string  `json:"name" msgpack:"name"`
	Index    uint32  `json:"index" msgpack:"index"`
	Group    string  `json:"group" msgpack:"group"`
	State    string  `json:"state" msgpack:"state"`
	Attempt  uint32  `json:"attempt" msgpack:"attempt"` // how often it has begun
	Agent    string  `json:"agent,omitempty" msgpack:"agent,omitempty"`
	Executor uint32  `json:"executor,omitempty" msgpack:"executor,omitempty"`
	Started  string  `json:"started,omitempty" msgpack:"started,omitempty"`
	Seconds  float64 `json:"seconds" msgpack:"seconds"`
	CPU      float64 `json:"cpu_seconds" msgpack:"cpu_seconds"`
	PeakRSS  uint64  `json:"peak_memory" msgpack:"peak_memory"`
	BytesIn  uint64  `json:"bytes_in" msgpack:"bytes_in"`
	BytesOut uint64  `json:"bytes_out" msgpack:"bytes_out"`
	Error    string  `json:"error,omitempty" msgpack:"error,omitempty"`
	LogTail  string  `json:"log_tail,omitempty" msgpack:"log_tail,omitempty"`

	Device *DeviceUse `json:"device,omitempty" msgpack:"device,omitempty"` // nil: it had nothing on a device
}

// DatasetRow is a row of QueryDatasets.
type DatasetRow struct {
	Job     string   `json:"job" msgpack:"job"`
	Name    string   `json:"name" msgpack:"name"`
	Attempt uint32   `json:"attempt" msgpack:"attempt"`
	Codec   string   `json:"codec" msgpack:"codec"`
	DType   string   `json:"dtype,omitempty" msgpack:"dtype,omitempty"`
	Shape   []uint64 `json:"shape,omitempty" msgpack:"shape,omitempty"`
	Size    uint64   `json:"size" msgpack:"size"`
	Place   string   `json:"place" msgpack:"place"`
	Agent   string   `json:"agent,omitempty" msgpack:"agent,omitempty"`
}

// AgentRow is a row of QueryAgents.
type AgentRow struct {
	Name      string   `json:"name" msgpack:"name"`
	State     string   `json:"state" msgpack:"state"`
	Platform  string   `json:"platform,omitempty" msgpack:"platform,omitempty"` // such as "linux/amd64"; "" of older agents
	Version   string   `json:"version,omitempty" msgpack:"version,omitempty"`   // of its program, such as "0.1.0 (25c01a85c1e2)"; "" of older agents, and of one that was not heard since the controller started
	CPU       float64  `json:"cpu" msgpack:"cpu"`
	Memory    int64    `json:"memory" msgpack:"memory"`
	GPU       float64  `json:"gpu" msgpack:"gpu"`
	Addresses []string `json:"addresses" msgpack:"addresses"`
	Sessions  string   `json:"sessions,omitempty" msgpack:"sessions,omitempty"` // where programs of its host open sessions; "" of older agents
	Running   uint64   `json:"running" msgpack:"running"`
	Jobs      uint64   `json:"jobs" msgpack:"jobs"`
	Seen      string   `json:"seen" msgpack:"seen"`

	Use *HostUse `json:"use,omitempty" msgpack:"use,omitempty"` // of its host, as it told last; none of older agents

	Resources map[string]float64 `json:"resources,omitempty" msgpack:"resources,omitempty"` // by name: what tasks may occupy besides
	Devices   []DeviceRow        `json:"devices,omitempty" msgpack:"devices,omitempty"`     // none of older agents, which count them alone
}

// HostUse is how much of a host is in use, by whatever runs there.
type HostUse struct {
	At     string  `json:"at" msgpack:"at"`
	Cores  uint64  `json:"cores" msgpack:"cores"` // of the host; an agent may be given fewer
	Busy   float64 `json:"busy_cores" msgpack:"busy_cores"`
	Total  uint64  `json:"memory_total" msgpack:"memory_total"`
	Memory uint64  `json:"memory_used" msgpack:"memory_used"`
}

// UseRow is a row of QueryUse: the use of a host in the last minutes, the newest last.
type UseRow struct {
	Agent  string    `json:"agent" msgpack:"agent"`
	Cores  uint64    `json:"cores" msgpack:"cores"`
	Total  uint64    `json:"memory_total" msgpack:"memory_total"`
	At     []int64   `json:"at" msgpack:"at"` // Unix seconds
	Busy   []float64 `json:"busy_cores" msgpack:"busy_cores"`
	Memory []uint64  `json:"memory_used" msgpack:"memory_used"`
}

// DeviceRow is a device of an agent.
type DeviceRow struct {
	Name   string `json:"name" msgpack:"name"`
	Memory int64  `json:"memory,omitempty" msgpack:"memory,omitempty"` // bytes; 0 when unknown
}

// EnvironmentRow is a row of QueryEnvironments.
type EnvironmentRow struct {
	Job     string  `json:"job" msgpack:"job"`
	Name    string  `json:"name" msgpack:"name"`
	Kind    string  `json:"kind" msgpack:"kind"`
	State   string  `json:"state" msgpack:"state"`
	Agent   string  `json:"agent" msgpack:"agent"`
	Key     string  `json:"key,omitempty" msgpack:"key,omitempty"`
	Seconds float64 `json:"seconds,omitempty" msgpack:"seconds,omitempty"`
	Size    uint64  `json:"size,omitempty" msgpack:"size,omitempty"` // bytes that were made for it
	Used    string  `json:"used,omitempty" msgpack:"used,omitempty"` // when the job last asked for it
	Error   string  `json:"error,omitempty" msgpack:"error,omitempty"`
}

// StoryRow is a row of QueryStory: one transition and its cause.
type StoryRow struct {
	At      string `json:"at" msgpack:"at"`
	Task    string `json:"task" msgpack:"task"`
	Attempt uint32 `json:"attempt" msgpack:"attempt"`
	What    string `json:"what" msgpack:"what"`
	Cause   string `json:"cause" msgpack:"cause"`
	Agent   string `json:"agent,omitempty" msgpack:"agent,omitempty"`
	Detail  string `json:"detail,omitempty" msgpack:"detail,omitempty"`

	Lost []string `json:"lost,omitempty" msgpack:"lost,omitempty"` // agents with which what starts over, or what it had produced, was lost
}

// CallRow is a row of QueryCalls: a called task that has ended. Its last try counts.
type CallRow struct {
	Name     string      `json:"name" msgpack:"name"`
	Task     string      `json:"task" msgpack:"task"` // of the graph, or the session's, from which it comes by whatever calls
	Parent   string      `json:"parent,omitempty" msgpack:"parent,omitempty"`
	Strand   uint64      `json:"strand,omitempty" msgpack:"strand,omitempty"` // with Number its place among the calls of its parent
	Number   uint64      `json:"number" msgpack:"number"`
	Function string      `json:"function" msgpack:"function"`
	State    string      `json:"state" msgpack:"state"` // done, failed or cancelled
	Tries    uint64      `json:"tries" msgpack:"tries"`
	Agent    string      `json:"agent" msgpack:"agent"`
	Executor uint32      `json:"executor,omitempty" msgpack:"executor,omitempty"`
	Called   string      `json:"called,omitempty" msgpack:"called,omitempty"`
	Started  string      `json:"started,omitempty" msgpack:"started,omitempty"`
	Ended    string      `json:"ended" msgpack:"ended"`
	Seconds  float64     `json:"seconds" msgpack:"seconds"`
	CPU      float64     `json:"cpu_seconds" msgpack:"cpu_seconds"`
	PeakRSS  uint64      `json:"peak_memory" msgpack:"peak_memory"`
	BytesIn  uint64      `json:"bytes_in" msgpack:"bytes_in"`
	BytesOut uint64      `json:"bytes_out" msgpack:"bytes_out"`
	Reads    []CallReads `json:"reads,omitempty" msgpack:"reads,omitempty"` // datasets that it read by reference
	Error    string      `json:"error,omitempty" msgpack:"error,omitempty"`
}

// CallReads is a dataset that a called task read by reference: an output of another call of its
// parent, a value that its parent put, or (OfParent) an input of its parent.
type CallReads struct {
	Input    uint32 `json:"input" msgpack:"input"` // number of its input
	OfParent bool   `json:"of_parent,omitempty" msgpack:"of_parent,omitempty"`
	Strand   uint64 `json:"strand,omitempty" msgpack:"strand,omitempty"` // with Number the place of the call or value
	Number   uint64 `json:"number" msgpack:"number"`
	Output   uint32 `json:"output" msgpack:"output"`   // OfParent: the number of the parent's input
	Element  uint64 `json:"element" msgpack:"element"` // OfParent: the place in its list
}

// RecordRow is a row of QueryRecords: the event of the end of a called task, as CallEvent reads it.
type RecordRow struct {
	Name  string `json:"name" msgpack:"name"`
	Agent string `json:"agent" msgpack:"agent"`
	Event []byte `json:"event" msgpack:"event"`
}

// NewRecordRow writes the event of the end of a called task, which an agent has told.
func NewRecordRow(e *Event, agent string) *RecordRow {
	return &RecordRow{Name: e.CallName(), Agent: agent, Event: Encode(&Events{Jobs: []JobEvents{{Events: []Event{*e}}}})}
}

// CallEvent is the event in a row.
func (r *RecordRow) CallEvent() (*Event, error) {
	m, err := Decode(r.Event)
	if err != nil {
		return nil, fmt.Errorf("record of called task %s: %w", r.Name, err)
	}
	events, ok := m.(*Events)
	if !ok || len(events.Jobs) != 1 || len(events.Jobs[0].Events) != 1 || events.Jobs[0].Events[0].Called == nil {
		return nil, fmt.Errorf("record of called task %s: %w", r.Name, ErrMalformed)
	}
	return &events.Jobs[0].Events[0], nil
}

// ReferenceRow is a row of QueryReferences: what an agent keeps of one called task, value or reference.
type ReferenceRow struct {
	Name      string  `json:"name" msgpack:"name"`
	Kind      string  `json:"kind" msgpack:"kind"` // call, value, borrowed (found in a value), remote (stands for another agent's) or copy (of another agent's, for what runs here)
	Function  string  `json:"function,omitempty" msgpack:"function,omitempty"`
	Job       string  `json:"job" msgpack:"job"`     // the job, or session, at the root
	Owner     string  `json:"owner" msgpack:"owner"` // whose it is: a session, a task, or another agent
	Agent     string  `json:"agent" msgpack:"agent"` // which keeps it
	State     string  `json:"state" msgpack:"state"`
	Holders   string  `json:"holders" msgpack:"holders"` // what keeps it, in words
	Parent    bool    `json:"parent" msgpack:"parent"`   // its parent has a future of it
	Values    uint32  `json:"values" msgpack:"values"`   // values that refer to it
	Readers   uint32  `json:"readers" msgpack:"readers"` // calls that wait for it
	Datasets  uint32  `json:"datasets" msgpack:"datasets"`
	Size      uint64  `json:"size" msgpack:"size"`                                           // bytes of what it made
	Place     string  `json:"place,omitempty" msgpack:"place,omitempty"`                     // where these are: shm, disk, message (small ones), with + between
	Shm       uint64  `json:"shm" msgpack:"shm"`                                             // of these in shared memory; what another row has too counts there alone
	Disk      uint64  `json:"disk" msgpack:"disk"`                                           // likewise, in files
	Message   uint64  `json:"message" msgpack:"message"`                                     // likewise, in the memory of the agent
	Arguments uint64  `json:"arguments,omitempty" msgpack:"arguments,omitempty"`             // bytes of arguments that it alone has
	Age       float64 `json:"age_seconds" msgpack:"age_seconds"`                             // since it was called
	Host      string  `json:"on,omitempty" msgpack:"on,omitempty"`                           // the agent that runs it, or is about to
	Waits     string  `json:"waits_for,omitempty" msgpack:"waits_for,omitempty"`             // what a call that has not ended waits for, in words
	Ran       float64 `json:"running_seconds,omitempty" msgpack:"running_seconds,omitempty"` // for which it runs on Agent
}

// LossRow is a row of QueryLosses: an agent was lost that had tasks of a job.
type LossRow struct {
	At      string  `json:"at" msgpack:"at"`
	Agent   string  `json:"agent" msgpack:"agent"`
	Cause   string  `json:"cause" msgpack:"cause"`                         // of four: nothing heard, connection closed, connection failed, process ended
	Why     string  `json:"why" msgpack:"why"`                             // how its link broke, in words
	Then    string  `json:"then" msgpack:"then"`                           // what becomes of its tasks
	Running uint64  `json:"running" msgpack:"running"`                     // tasks that ran there
	Waiting uint64  `json:"waiting" msgpack:"waiting"`                     // tasks that had yet to begin there
	Grace   float64 `json:"grace_seconds" msgpack:"grace_seconds"`         // for which they wait for the agent
	Awaited bool    `json:"awaited,omitempty" msgpack:"awaited,omitempty"` // they wait for it now
	Open    bool    `json:"open,omitempty" msgpack:"open,omitempty"`       // it is not back, and of these tasks some have yet to end
	Back    string  `json:"back,omitempty" msgpack:"back,omitempty"`       // when it was there again, and they went on
}

// ProfileRow is a row of QueryProfiles: an entry of a profile file, as JSON.
type ProfileRow struct {
	Entry string `json:"entry" msgpack:"entry"`
}

// LinkRow is a row of QueryLinks: a link of a profile file, as JSON.
type LinkRow struct {
	Entry string `json:"entry" msgpack:"entry"`
}

// PlanRow is a row of QueryPlan.
type PlanRow struct {
	Task   string  `json:"task" msgpack:"task"`
	Host   string  `json:"host" msgpack:"host"`
	Rank   float64 `json:"rank_seconds" msgpack:"rank_seconds"`
	Start  float64 `json:"start_seconds" msgpack:"start_seconds"`
	Finish float64 `json:"finish_seconds" msgpack:"finish_seconds"`
	Reason string  `json:"reason" msgpack:"reason"`
	Held   string  `json:"held,omitempty" msgpack:"held,omitempty"` // with how much memory it begins, when that is more than its job says; Reason has it too
}

// MemberRow is a row of QueryMembers: one certificate that has not expired.
type MemberRow struct {
	Role    string `json:"role" msgpack:"role"`
	Name    string `json:"name" msgpack:"name"`
	Serial  string `json:"serial" msgpack:"serial"`
	State   string `json:"state" msgpack:"state"` // connected, valid or revoked
	Issued  string `json:"issued" msgpack:"issued"`
	Expires string `json:"expires" msgpack:"expires"`
}

// TokenRow is a row of QueryTokens: one valid token.
type TokenRow struct {
	ID      string `json:"id" msgpack:"id"`
	Role    string `json:"role" msgpack:"role"`
	Name    string `json:"name,omitempty" msgpack:"name,omitempty"`
	Uses    int    `json:"uses" msgpack:"uses"`
	Expires string `json:"expires" msgpack:"expires"`
}
