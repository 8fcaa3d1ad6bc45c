// Package doctor looks whether a host is fit for Cascade, and says how to mend
// what is not.
//
//	Host (what the kernel and the user have) ──▶ checks ──▶ Line: ok, warn or fail, and the mend
//
// Invariants: looking changes nothing; a check that cannot look says so as a warning.
package doctor
