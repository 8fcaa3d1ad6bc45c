// Package metrics exposes the metrics of a daemon to Prometheus.
//
//	controller, agent ── []Measure: name, meaning, how to read it ──▶ Serve ──▶ GET /metrics
//
// Invariants: nothing is counted here, and reading waits for no lock for long; a
// request from a web page of another host is refused.
package metrics
