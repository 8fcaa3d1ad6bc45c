package pki

import "io"

// ReadJoin reads what one who joins sends.
func ReadJoin(r io.Reader) {
	var q joinRequest
	_ = readMessage(r, &q) // whatever it is, it ends with an error or a request
}
