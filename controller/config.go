package controller

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/internal/graphcache"
)

// Config says how a controller works. Zero fields take the default that is stated.
type Config struct {
	Name    string // default: controller
	Address string // to listen on, as comms.ParseAddress reads it; required
	State   string // folder of the store and of packages; required
	Build   string // version of the program, told to peers

	Passive bool   // answer questions only, run nothing
	Sync    bool   // survive power loss, and not only the crash of processes
	Shards  int    // of a new store; default 2
	Memory  int64  // bytes that the store's tables and caches in memory may take; default 64 MiB
	MinFree uint64 // free bytes of the disk below which nothing is stored; default 256 MiB
	Retain  Retention
	Spread  bool          // jobs that gain by it run on several agents at once
	Steal   time.Duration // with Spread: an idle agent takes work that another has not begun where that saves at least this; 0: never
	Network int64         // bits a second between hosts of which nothing was measured, for plans; default what was measured between others, else 10 Gbit/s
	// Unclaimed is how long a package or graph that was sent ahead waits for the job that
	// needs it; default 10 minutes.
	Unclaimed time.Duration
	Grace     time.Duration // how long a lost agent's jobs wait for it when another agent could take them; default 30s

	Inproc          *comms.Inproc      // names that can be reached inside this process; default none
	Graphs          *graphcache.Graphs // that other parts of this process decode too; default none
	CertificateLife time.Duration      // of agents and clients; default 7 and 30 days
	Audit           string             // file to which who asked for what is appended; default none
	LateHook        []string           // program and arguments to run, or an http address to post to, when a job is predicted to miss a deadline: see hook.go; default none

	InsecureTestNetwork bool          // permit plain TCP, for tests and benchmarks
	Silence             time.Duration // after which the link of an agent or client counts as broken; default comms.DefaultSilence
	ResumeWindow        time.Duration // how long a broken link may take to come back; default 1m, but not longer than Grace
	Log                 zerolog.Logger
}

// Retention says which ended jobs stay: those that were submitted to be kept,
// and of the others as many of the last as its bounds allow. The first bound that
// is exceeded deletes the job that ended first, with its lineage and its datasets.
type Retention struct {
	Age   time.Duration // since the end; default 30 days, negative: no bound
	Jobs  int           // default 1,000,000, negative: no bound
	Bytes int64         // that the store was given for them, without graphs, which jobs share; default 4 GiB, negative: no bound
}

const defaultShards = 2

const storeFolder = "store" // in the state folder

func (cfg Config) withDefaults() (Config, error) {
	var all []error
	if cfg.Name == "" {
		cfg.Name = "controller"
	}
	all = append(all, comms.CheckName("controller", cfg.Name))
	if cfg.Address == "" {
		all = append(all, errors.New("the address to listen on is missing"))
	}
	if cfg.State == "" {
		all = append(all, errors.New("the state folder is missing"))
	}
	var err error
	if cfg.State, err = filepath.Abs(cfg.State); err != nil {
		all = append(all, fmt.Errorf("state folder: %w", err))
	}
	if cfg.Shards < 0 || cfg.Shards > 256 {
		all = append(all, fmt.Errorf("%d shards: want 1 to 256", cfg.Shards))
	}
	if cfg.Network < 0 {
		all = append(all, fmt.Errorf("a network of %d bits a second: want 0 for the default, or more", cfg.Network))
	}
	if cfg.Steal < 0 {
		all = append(all, fmt.Errorf("idle agents take work from %v on: want a duration such as 10ms, or 0 for never", cfg.Steal))
	}
	if cfg.Grace < 0 || cfg.CertificateLife < 0 {
		all = append(all, fmt.Errorf("a grace of %v and certificates for %v: want durations of 0 or more, such as 30s", cfg.Grace, cfg.CertificateLife))
	}
	all = append(all, comms.CheckSilence(cfg.Silence))
	if cfg.Unclaimed < 0 {
		all = append(all, fmt.Errorf("packages wait %v for their job: want a duration of 0 or more, such as 10m", cfg.Unclaimed))
	}
	cfg.Unclaimed = cmp.Or(cfg.Unclaimed, 10*time.Minute)
	if cfg.Memory < 0 || cfg.Memory > 0 && cfg.Memory < gcs.LeastMemory(max(cfg.Shards, defaultShards)) {
		all = append(all, fmt.Errorf("%d bytes of memory for the store: want at least %d MiB", cfg.Memory, gcs.LeastMemory(max(cfg.Shards, defaultShards))>>20))
	}
	cfg.Retain.Age = cmp.Or(cfg.Retain.Age, 30*24*time.Hour)
	cfg.Retain.Jobs = cmp.Or(cfg.Retain.Jobs, 1_000_000)
	cfg.Retain.Bytes = cmp.Or(cfg.Retain.Bytes, 4<<30)
	return cfg, errors.Join(all...)
}

func (cfg *Config) core(incarnation uint64) core.Config {
	return core.Config{Incarnation: incarnation, Passive: cfg.Passive, Spread: cfg.Spread, Bandwidth: float64(cfg.Network) / 8, Grace: cfg.Grace, Steal: cfg.Steal,
		TTL: max(cfg.Retain.Age, 0), MaxEnded: max(cfg.Retain.Jobs, 0), MaxStored: uint64(max(cfg.Retain.Bytes, 0))}
}

func (cfg *Config) store(onPause func(bool, uint64)) gcs.Options {
	return gcs.Options{Dir: filepath.Join(cfg.State, storeFolder), Shards: cfg.Shards, Sync: cfg.Sync,
		Memory: cfg.Memory, MinFree: cfg.MinFree, Brief: cfg.Passive, OnPause: onPause}
}

func (cfg *Config) links(h comms.Handler, incarnation uint64, s *comms.Security) comms.Config {
	return comms.Config{
		Self:    comms.Identity{Role: "controller", Name: cfg.Name, Incarnation: incarnation, PID: os.Getpid(), Build: cfg.Build, Features: []string{comms.FeatureMany, comms.FeaturePackages, comms.FeatureInputs, comms.FeatureQuiet, comms.FeaturePlatforms, comms.FeatureParams, comms.FeatureResume, comms.FeatureSubmits}},
		Handler: h, Inproc: cfg.Inproc, Replay: true, ResumeWindow: cmp.Or(cfg.ResumeWindow, min(time.Minute, cmp.Or(cfg.Grace, core.DefaultGrace))),
		HeartbeatTimeout: cfg.Silence,
		Security:         s, InsecureTestNetwork: cfg.InsecureTestNetwork, Log: cfg.Log,
		CheckPeer: func(p comms.Identity, _ int) error {
			if p.Role == "client" || p.Role == "agent" {
				return nil
			}
			return fmt.Errorf("a controller speaks with clients and agents, and %s has the role %s", p.Name, p.Role)
		},
	}
}
