package ui

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// hostsState is the state of the topic hosts.
type hostsState struct {
	Hosts []comms.AgentRow  `json:"hosts"`
	Links []json.RawMessage `json:"links"` // as in a profile file: what moves between hosts, at which rate
	More  int               `json:"more"`  // links that are not listed
}

// useState is the state of the topic use: how much of each host was in use in the last minutes.
type useState struct {
	Hosts []comms.UseRow `json:"hosts"`
	More  int            `json:"more"` // hosts that are not listed
}

// use is the state of the topic use.
func (h *Handler) use(ctx context.Context) (any, error) {
	s := &useState{Hosts: []comms.UseRow{}}
	if h.cfg.Alone {
		return s, nil
	}
	rows, err := rowsOf[comms.UseRow](ctx, h.cfg.Source, comms.QueryUse, comms.JobID{}, "", 0)
	if errors.Is(err, cascade.ErrBadRequest) { // an older controller
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.More = max(0, len(rows)-shownRows)
	s.Hosts = append(s.Hosts, rows[:len(rows)-s.More]...)
	return s, nil
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
			s.Hosts[i].State, s.Hosts[i].Running, s.Hosts[i].Seen, s.Hosts[i].Use = "away", 0, "", nil
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
