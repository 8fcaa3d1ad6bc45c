package ui

import (
	"context"
	"encoding/json"

	"github.com/cascade-run/cascade/comms"
)

// hostsState is the state of the topic hosts.
type hostsState struct {
	Hosts []comms.AgentRow  `json:"hosts"`
	Links []json.RawMessage `json:"links"` // as in a profile file: what moves between hosts, at which rate
	More  int               `json:"more"`  // links that are not listed
}

// mostLinks is the most links that a page shows: those that moved most come first.
const mostLinks = 200

// hosts is the state of the topic hosts.
func (h *Handler) hosts(ctx context.Context) (any, error) {
	rows, err := rowsOf[comms.AgentRow](ctx, h.cfg.Source, comms.QueryAgents, comms.JobID{}, "", 0)
	if err != nil {
		return nil, err
	}
	s := &hostsState{Hosts: rows, Links: []json.RawMessage{}}
	if rows == nil {
		s.Hosts = []comms.AgentRow{}
	}
	for i := range s.Hosts {
		if h.cfg.Alone {
			s.Hosts[i].State, s.Hosts[i].Running, s.Hosts[i].Seen = "away", 0, ""
		}
	}
	links, err := rowsOf[comms.LinkRow](ctx, h.cfg.Source, comms.QueryLinks, comms.JobID{}, "", mostLinks+1)
	if err != nil {
		return nil, err
	}
	for _, l := range links[:min(len(links), mostLinks)] {
		s.Links = append(s.Links, json.RawMessage(l.Entry))
	}
	s.More = len(links) - len(s.Links)
	return s, nil
}
