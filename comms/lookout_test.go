//go:build linux

package comms

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// The timer is set while there are calls, and no longer: a process at rest sleeps.
func TestLookout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o lookout
		zero, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(zero)
		for range 3 {
			for range 20 {
				if n, err := o.read(zero, make([]byte, 8)); n != 8 || err != nil {
					t.Fatalf("read %d bytes: %v", n, err)
				}
				if !o.set.Load() {
					t.Fatal("a call was made, and the timer is not set")
				}
				time.Sleep(lookEvery / 4)
			}
			time.Sleep(3 * lookEvery)
			if o.set.Load() {
				t.Fatal("the timer is set after a rest")
			}
		}
	})
}

// A call between the timer's last look and its rest has it set again.
func TestLookoutMissesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o lookout
		o.pass()
		o.used.Store(false) // look has swapped it
		o.pass()            // finds the timer set
		o.rest()
		if !o.set.Load() {
			t.Error("a call was made, and the timer is not set")
		}
		time.Sleep(3 * lookEvery)
		if o.set.Load() {
			t.Error("the timer is set after a rest")
		}
	})
}

func TestLookoutWrites(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	var o lookout
	for _, vec := range [][][]byte{{[]byte("one")}, {[]byte("t"), {}, []byte("wo")}, {make([]byte, quickMost), make([]byte, 1)}} {
		size := 0
		for _, b := range vec {
			size += len(b)
		}
		n, err := o.writev(p[1], vec)
		if err != nil || n == 0 || n > size || size <= 3 && n != size {
			t.Fatalf("%d bytes: wrote %d, %v", size, n, err)
		}
		if got, err := o.read(p[0], make([]byte, 2*quickMost)); err != nil || got != n {
			t.Fatalf("read %d, %v", got, err)
		}
	}
	if _, err := o.read(p[0], make([]byte, 1)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("an empty pipe: %v", err)
	}
	if err := unix.Close(p[1]); err != nil {
		t.Fatal(err)
	}
	if n, err := o.read(p[0], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the end: %d, %v", n, err)
	}
}
