package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// lossText says when and how an agent was lost, and what becomes of its tasks.
func lossText(l *comms.LossRow) string {
	text := fmt.Sprintf("agent %s lost at %s (%s)", l.Agent, atSecond(l.At), l.Why)
	switch {
	case l.Back != "":
		return text + "; it was back at " + atSecond(l.Back)
	case l.Awaited || l.Open:
		return text + "; " + l.Then
	}
	return text
}

// atSecond prints a time as local time of day, to the second, with the date when it is not today.
func atSecond(s string) string { return localTime(s, "15:04:05") }

// losses lists the agents that were lost with tasks of a job.
func losses(ctx context.Context, client *cascade.Client, job comms.JobID) ([]comms.LossRow, error) {
	return cascade.Rows[comms.LossRow](ctx, client, comms.QueryLosses, job, "")
}

// openLosses tells of the lost agents of which tasks of a job have yet to end.
func openLosses(ctx context.Context, client *cascade.Client, job comms.JobID) (texts []string, err error) {
	rows, err := losses(ctx, client, job)
	for i := range rows {
		if rows[i].Awaited || rows[i].Open {
			texts = append(texts, lossText(&rows[i]))
		}
	}
	return texts, err
}

// printLosses prints which agents were lost with tasks of a job that have yet to end.
func (a *app) printLosses(ctx context.Context, client *cascade.Client, p *cascade.Progress) error {
	if a.json || a.alone || p.Final {
		return nil
	}
	texts, err := openLosses(ctx, client, p.Job)
	for _, text := range texts {
		fmt.Fprintf(a.out, "  %s\n", text)
	}
	return err
}

// lossesEvery is how often who waits for a job asks for lost agents.
const lossesEvery = 2 * time.Second
