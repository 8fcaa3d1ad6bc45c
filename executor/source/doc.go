// Package source reads what an input of a job stands for: a file of this host, a file
// that the cluster keeps, or what a URL gives.
//
//	path ──▶ the file here, when it is what it was ──────┐
//	  └────▶ the cluster's copy, when it keeps one ──────┼──▶ Room: one buffer, hash checked
//	URL  ──▶ GET, again after what may pass ─────────────┘
//
// Invariants:
//   - Bytes that have another SHA-256 than the job says are an error, wherever they
//     come from. Without a SHA-256 in the job nothing is compared.
//   - Each byte is read once and written once: into what Room gave.
//   - What cannot get better by waiting is not tried again.
//   - Nothing goes on when the context has ended; a server that is silent is given up.
package source
