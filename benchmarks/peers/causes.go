package main

import "strings"

// causes says why a peer is ahead, by the beginnings of rows' names, where that is known.
func causes() map[string]string {
	return map[string]string{
		"sdmi": "The decompositions have both cores all the time: of the 1.5 s of six of them 15 to 20 ms are not in tasks. " +
			"The difference is how fast the cores were, as it is between Ray's two settings",
		"broadcast": "Bytes have a checksum, made where they are and compared where they arrive, on the two cores that move them; Dask's have none. " +
			"`go run ./benchmarks/transfer -only unshaped -bytes 134217728` is 1.35 to 1.5 times as fast without",
		"repeat": "Ray's compiled graphs are loops of actors that are bound to each other through shared memory once: no run of them is submitted, " +
			"named, recorded or done again. A run of ours is a job with all of that",
	}
}

// cause of a row that is behind; "" when it is not known.
func cause(name string) string {
	for begins, text := range causes() {
		if strings.HasPrefix(name, begins) {
			return text
		}
	}
	return ""
}
