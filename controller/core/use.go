package core

import (
	"time"

	"github.com/cascade-run/cascade/comms"
)

// keptUses is how many uses of a host are kept: those of the last ten minutes.
const keptUses = 600 / comms.UseEvery

// uses are what an agent told last of the use of its host, in fixed room.
type uses struct {
	cores, total uint64
	n            int // told so far
	past         [keptUses]useAt
}

type useAt struct {
	at     int64 // Unix seconds
	busy   float64
	memory uint64
}

// add keeps what an agent tells now, in place of what it told longest ago.
func (u *uses) add(now time.Time, m *comms.Use) {
	u.cores, u.total = m.Cores, m.Total
	busy := m.Busy
	if !(busy >= 0 && busy <= float64(m.Cores)) { // no number, too
		busy = 0
	}
	u.past[u.n%keptUses] = useAt{now.Unix(), busy, m.Memory}
	u.n++
}

// row is what was told last; nil before anything was.
func (u *uses) row() *comms.HostUse {
	if u.n == 0 {
		return nil
	}
	last := &u.past[(u.n-1)%keptUses]
	return &comms.HostUse{At: time.Unix(last.at, 0).UTC().Format(time.RFC3339), Cores: u.cores, Busy: last.busy, Total: u.total, Memory: last.memory}
}

// useRows are the uses of all agents that told any, as they were told.
func (c *Core) useRows() (rows []comms.UseRow) {
	for _, a := range c.sortedAgents() {
		u := &a.uses
		if u.n == 0 {
			continue
		}
		row := comms.UseRow{Agent: a.row.Name, Cores: u.cores, Total: u.total}
		for i := max(0, u.n-keptUses); i < u.n; i++ {
			p := &u.past[i%keptUses]
			row.At, row.Busy, row.Memory = append(row.At, p.at), append(row.Busy, p.busy), append(row.Memory, p.memory)
		}
		rows = append(rows, row)
	}
	return rows
}
