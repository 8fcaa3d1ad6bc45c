package controller

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A worker of Badger's logging dependency, started by an init function, lives as long as the process.
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}
