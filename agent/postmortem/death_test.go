package postmortem

import "unsafe"

// recurse ends with the stack.
func recurse(n int) int {
	if n < 0 {
		return n
	}
	return recurse(n+1) + 1
}

// raceOnMap writes to a map from many goroutines until the runtime notices.
func raceOnMap() {
	m := map[int]int{}
	for range 8 {
		go func() {
			for i := 0; ; i++ {
				m[i%10] = i
			}
		}()
	}
	select {}
}

//go:nocheckptr
func writeAt(addr uintptr) {
	p := *(**int)(unsafe.Pointer(&addr))
	*p = 1
}
