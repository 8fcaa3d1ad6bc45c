//go:build check

package shm

// checked turns on what finds mistakes in the use of shared memory: freed ranges are poisoned, and ended
// views and leases can not be touched.
const checked = true
