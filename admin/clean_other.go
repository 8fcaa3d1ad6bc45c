//go:build !linux

package admin

import "errors"

// Clean needs Linux: no daemon runs elsewhere.
func Clean(string, ...CleanOption) ([]Cleaned, error) {
	return nil, errors.New("clean up: controller and agents run on Linux only")
}
