package gcs

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(writerVar); text != "" {
		writeForever(text)
		return
	}
	if dir := os.Getenv("GCS_TEST_WRITE_UNTIL_KILLED"); dir != "" {
		writeUntilKilled(dir)
		return
	}
	goleak.VerifyTestMain(m,
		// A worker of Badger's logging dependency, started by an init function, lives as long as the process.
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}
