package main

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
)

func TestExplainEnvironment(t *testing.T) {
	rows := []comms.EnvironmentRow{
		{Name: "ready", State: "ready", Agent: "h1"},
		{Name: "fields", State: "building", Agent: "h2"},
		{Name: "reader", State: "building", Agent: "h1", Error: "the index cannot be reached\nconnection refused"},
	}
	for name, want := range map[string]string{
		"":       "",
		"ready":  "",
		"unused": "",
		"fields": "environment fields is being built on agent h2",
		"reader": "environment reader is being built on agent h1, which waits: the index cannot be reached",
	} {
		var x explanation
		if x.environment(name, rows); x.Building != want {
			t.Errorf("%q: %q, want %q", name, x.Building, want)
		}
	}
}
