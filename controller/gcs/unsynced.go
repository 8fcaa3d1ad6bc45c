package gcs

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// unsynced hears of an error that Badger tells to its log only: when its file of
// large values cannot be synced it commits all the same. Such a commit must not be
// acknowledged.
type unsynced struct{ err atomic.Pointer[error] }

// unsyncedText begins what Badger says then (valueLog.write).
const unsyncedText = "Error while curlf sync"

// Errorf serves badger.Logger, as the other methods do.
func (u *unsynced) Errorf(format string, args ...any) {
	if strings.HasPrefix(format, unsyncedText) {
		err := fmt.Errorf("large values are not on disk: "+strings.TrimSpace(format), args...)
		u.err.Store(&err)
	}
}

// Warningf hears nothing.
func (u *unsynced) Warningf(string, ...any) {}

// Infof hears nothing.
func (u *unsynced) Infof(string, ...any) {}

// Debugf hears nothing.
func (u *unsynced) Debugf(string, ...any) {}

// heard returns the error, nil when there was none.
func (u *unsynced) heard() error {
	if err := u.err.Load(); err != nil {
		return *err
	}
	return nil
}
