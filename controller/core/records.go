package core

import (
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/planner"
)

// Records, by the names that they have here.
type (
	JobRecord     = records.Job
	Assignment    = records.Assignment
	Totals        = records.Totals
	Batch         = records.Batch
	Granting      = records.Granting
	Reason        = records.Reason
	Seen          = records.Seen
	DatasetRecord = records.Dataset
	TaskRecord    = records.Task
	AgentRecord   = records.Agent
	Commit        = records.Commit
	Difference    = records.Difference
	Loss          = records.Loss
	LossCause     = records.LossCause
)

// Values of records, by the names that they have here.
const (
	GrantCounts = records.GrantCounts
	GrantTries  = records.GrantTries
	GrantBegun  = records.GrantBegun
	LossSilent  = records.LossSilent
	LossClosed  = records.LossClosed
	LossFailed  = records.LossFailed
	LossEnded   = records.LossEnded
)

// HostOf returns what a plan goes by, as far as the row of an agent tells it.
func HostOf(r *AgentRecord) planner.Host {
	h := planner.Host{Name: r.Name, CPU: r.Total.CPU, Memory: r.Total.Memory, GPU: r.Total.GPU, Platform: planner.PlatformOf(r.Platform)}
	for _, d := range r.Total.Devices {
		h.Devices = append(h.Devices, planner.Device{Memory: d.Memory})
	}
	for _, x := range r.Total.Custom {
		if h.Custom == nil {
			h.Custom = map[string]int64{}
		}
		h.Custom[x.Name] = x.N
	}
	return h
}
