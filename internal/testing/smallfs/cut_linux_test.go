package smallfs

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	syncerVar = "SMALLFS_TEST_SYNCER" // names the folder in which a process syncs records
	syncFiles = 6
	syncBytes = 600     // of a record: some lie in two pages
	syncSize  = 4 << 20 // of a file, which is sparse at first, as a log of Badger
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(syncerVar); dir != "" {
		syncForever(dir)
		return
	}
	os.Exit(m.Run())
}

// syncForever writes records to mapped files, and says of each that it is synced.
func syncForever(dir string) {
	var all sync.WaitGroup
	for file := range syncFiles {
		all.Go(func() {
			if err := syncFile(filepath.Join(dir, fmt.Sprint(file)), file); err != nil {
				fmt.Println("error", err)
			}
		})
	}
	all.Wait()
}

func syncFile(path string, file int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(syncSize); err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, syncSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	for n := range syncSize / syncBytes {
		for at := 0; at < syncBytes; at += 8 {
			binary.LittleEndian.PutUint64(m[n*syncBytes+at:], uint64(n)+1)
		}
		if err := unix.Msync(m, unix.MS_SYNC); err != nil {
			return err
		}
		if _, err := fmt.Printf("synced %d %d\n", file, n); err != nil {
			return err
		}
	}
	return nil
}

// A process that is on a host that loses its power tells nobody that a sync has succeeded
// of which nothing is on disk. (Of a process that goes on after the cut that is seen in
// one of five rounds.)
func TestCutIsNotOutlived(t *testing.T) {
	if !Enter(t) {
		return
	}
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	im := Ext4(t, t.TempDir(), 128<<20)
	for round := range rounds {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), syncerVar+"="+im.Dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		synced := [syncFiles]int{}
		lines := bufio.NewScanner(out)
		for more := 50 + rand.IntN(200); lines.Scan(); more-- {
			var file, n int
			if _, err := fmt.Sscanf(lines.Text(), "synced %d %d", &file, &n); err != nil {
				t.Fatalf("round %d: %s", round, lines.Text())
			}
			if synced[file] = n + 1; more == 0 {
				im.Cut(cmd.Process.Pid)
				_ = cmd.Process.Kill() // what it had said before is read to its end
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("round %d: the process ended with %v", round, err)
		}
		im.Restart()
		for file, n := range synced {
			requireSynced(t, im, round, file, n)
		}
	}
}

// requireSynced wants the first records of a file.
func requireSynced(t *testing.T, im *Image, round, file, records int) {
	t.Helper()
	if records == 0 {
		return
	}
	b, err := os.ReadFile(filepath.Join(im.Dir, fmt.Sprint(file)))
	if err != nil {
		t.Errorf("round %d: %v", round, err)
		return
	}
	for at := 0; at < records*syncBytes; at += 8 {
		if got, want := binary.LittleEndian.Uint64(b[at:]), uint64(at/syncBytes)+1; got != want {
			t.Errorf("round %d: file %d at byte %d is of record %d, want %d of %d that were synced", round, file, at, got, want, records)
			return
		}
	}
}
