// Package source reads what an input of a job stands for: a file of this host, a file
// that the cluster keeps, or what a URL gives.
//
//	path ──▶ the file here, when it is what it was ──────┐
//	  └────▶ the cluster's copy, when it keeps one ──────┼──▶ Room: one buffer, hash checked
//	URL  ──▶ GET (internal/fetch) ───────────────────────┘
//
// Invariants:
//   - Bytes that have another SHA-256 than the job says are an error, wherever they
//     come from. Without a SHA-256 in the job nothing is compared.
//   - Each byte is read once and written once, into what Room gave; of a server that does
//     not say how much it sends, into a file first.
//   - Nothing goes on when the context has ended.
package source
