// Package measure shows numbers of a daemon to Prometheus.
//
//	controller, agent ── []Measure: name, meaning, how to read it ──▶ Serve ──▶ GET /metrics
//
// Invariants: nothing is counted here, and reading waits for nobody for long; who
// asks from a web page of another host is refused.
package measure
