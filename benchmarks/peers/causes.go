package main

import "strings"

// causes says why a peer is ahead, by the beginnings of rows' names, where that is known.
func causes() map[string]string {
	return map[string]string{
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
