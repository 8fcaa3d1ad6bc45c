//go:build !unix

package journal

import "os"

func lock(*os.File) error { return nil }

func busy(*os.File) (bool, error) { return true, nil }
