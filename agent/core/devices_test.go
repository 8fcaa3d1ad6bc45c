package core

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
)

// TestDevices takes and gives shares and whole devices at random: no device is overfilled,
// whole ones are had by one alone, and what brute force finds room for is found.
func TestDevices(t *testing.T) {
	const gib = 1 << 30
	rapid.Check(t, func(t *rapid.T) {
		var total comms.Resources
		for i := range rapid.IntRange(1, 4).Draw(t, "devices") {
			total.Devices = append(total.Devices, comms.Device{Name: string(rune('a' + i)), Memory: rapid.SampledFrom([]int64{0, 8 * gib, 16 * gib}).Draw(t, "memory")})
		}
		total.GPU = int64(len(total.Devices)) * wholeDevice
		d := devicesOf(&total)
		type taken struct {
			demand
			holding
		}
		var all []taken
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(t, "give") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				d.give(all[i].holding)
				all = slices.Delete(all, i, i+1)
				continue
			}
			want := demand{rapid.SampledFrom([]int64{1, 250, 300, 500, 1000, 2000, 3000}).Draw(t, "gpu"), rapid.SampledFrom([]int64{0, 1, 5 * gib, 8 * gib, 12 * gib}).Draw(t, "bytes")}
			// What each device has left, counted anew from what was taken.
			room := 0
			n, each := want.count()
			for i, dev := range total.Devices {
				left := portion{wholeDevice, dev.Memory}
				for _, h := range all {
					if slices.Contains(h.at, i) {
						left.gpu -= h.each.gpu
						left.memory -= h.each.memory
					}
				}
				if left.gpu >= each.gpu && (dev.Memory == 0 || left.memory >= each.memory) {
					room++
				}
			}
			h, ok := d.find(want)
			if ok != (room >= n) {
				t.Fatalf("%d devices have room for %+v, %d are needed; found: %v", room, want, n, ok)
			}
			if !ok {
				continue
			}
			if len(h.at) != n || !slices.IsSorted(h.at) || len(slices.Compact(slices.Clone(h.at))) != n {
				t.Fatalf("%+v is given devices %v", want, h.at)
			}
			d.take(h)
			all = append(all, taken{want, h})
			for i, f := range d.free {
				if f.gpu < 0 || total.Devices[i].Memory > 0 && f.memory < 0 {
					t.Fatalf("device %d has %+v left", i, f)
				}
			}
		}
		for _, h := range all {
			d.give(h.holding)
		}
		if fresh := devicesOf(&total); !slices.Equal(fresh.free, d.free) {
			t.Fatalf("when all is given back %v is free, of %v", d.free, fresh.free)
		}
	})
}

// TestSharesKeepDevicesWhole: shares go to the fullest device that has room.
func TestSharesKeepDevicesWhole(t *testing.T) {
	var total comms.Resources
	total.GPU = 3000
	d := devicesOf(&total)
	for i, step := range []struct {
		gpu  int64
		want []int
	}{{600, []int{0}}, {300, []int{0}}, {500, []int{1}}, {100, []int{0}}, {400, []int{1}}, {1000, []int{2}}, {200, nil}, {100, []int{1}}, {1000, nil}} {
		h, ok := d.find(demand{gpu: step.gpu})
		if ok != (step.want != nil) || !slices.Equal(h.at, step.want) {
			t.Fatalf("step %d: %d goes to %v, want %v", i, step.gpu, h.at, step.want)
		}
		d.take(h)
	}
}

// TestDevicesChangeHands: tasks that want the same devices in different portions get
// them in turn. No executor is started only to be ended for another, again and again.
func TestDevicesChangeHands(t *testing.T) {
	for seed := range uint64(50) {
		cfg := hostOf(2)
		cfg.Total.GPU = 2000
		w := newWorld(t, cfg, xorshift(seed))
		spawned := 0
		w.trace = func(_ Event, out []Action) {
			for _, a := range out {
				if _, ok := a.(Spawn); ok {
					spawned++
				}
			}
			if spawned > 15 {
				t.Fatalf("seed %d: %d executors are started for 7 tasks", seed, spawned)
			}
		}
		w.step(ControllerUp{})
		w.assign(1, graph(t, `
job: devices
tasks:
  one: {run: F, resources: {gpu: 1}}
  two: {run: F, resources: {gpu: 2}}
  none: {run: F}
  gang: {gang: 2, run: F, resources: {gpu: 1, cpu: 0.5}}
  share: {run: F, resources: {gpu: 0.5}}
  shell: {run: F}
`), comms.Assign{})
		w.run()
		if len(w.done) != 7 {
			t.Fatalf("seed %d: done %v", seed, w.done)
		}
	}
}
