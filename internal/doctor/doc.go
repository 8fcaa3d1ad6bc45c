// Package doctor checks whether a host is fit for Cascade, and says how to fix
// what is not.
//
//	Host (what the kernel and the user have) ──▶ checks ──▶ Line: ok, warn or fail, and the fix
//
// Invariants: looking changes nothing; a check that cannot look says so as a warning.
package doctor
