package executor

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
)

// Variables that an agent puts into the environment of an executor.
const (
	EnvAddr  = "CASCADE_EXECUTOR_ADDR"  // where the agent listens; its presence makes a process an executor
	EnvToken = "CASCADE_EXECUTOR_TOKEN" // which spawn this is
	EnvCrash = "CASCADE_EXECUTOR_CRASH" // file that takes the runtime's last words
	EnvPipes = "CASCADE_EXECUTOR_PIPES" // not empty: the agent takes a link through pipes (comms.Config.Pipes)
	EnvWords = "CASCADE_EXECUTOR_WORDS" // folder of two named pipes, WordsFiles: what functions print and was not sent
	EnvCode  = "CASCADE_EXECUTOR_CODE"  // folders of the job's files, with colons between: below them these have the user's names
)

// Variables that a person who debugs a task puts there as well.
const (
	EnvWhere = "CASCADE_EXECUTOR_WHERE" // name of a function: the executor prints its symbol, for a breakpoint, and ends
	EnvDebug = "CASCADE_EXECUTOR_DEBUG" // not empty: a Python executor runs functions under pdb
)

// WordsFiles are the pipes in the folder of EnvWords. The agent holds them open: when the executor dies it reads what is in them.
var WordsFiles = [2]string{"stdout", "stderr"}

// MaxMessage bounds a message from an agent to an executor, in bytes: one run may
// name hundreds of thousands of inputs, and small ones travel in it. An agent fails
// a run whose inputs take more than half of it, and the error says how to avoid that.
// Messages of an executor are bounded as on all links.
const MaxMessage = 512 << 20

// dialTimeout bounds the first handshake.
const dialTimeout = 20 * time.Second

// Main makes this process an executor when an agent started it as one, and then
// never returns. Otherwise it returns at once. A program that runs tasks of its
// own functions calls it first thing in main.
func Main() {
	addr := os.Getenv(EnvAddr)
	if addr == "" {
		return
	}
	if name := os.Getenv(EnvWhere); name != "" {
		symbol, err := Default.symbol(name)
		if err == nil {
			fmt.Println(symbol)
		}
		exit(err)
	}
	cfg := Config{Token: os.Getenv(EnvToken), Pipes: os.Getenv(EnvPipes) != "", Build: build(), PID: os.Getpid(), Capture: true, Words: os.Getenv(EnvWords),
		Log: zerolog.New(os.Stderr).With().Timestamp().Int("executor_pid", os.Getpid()).Logger()}
	crash := os.Getenv(EnvCrash)
	// Programs that tasks start must not take themselves for executors.
	for _, name := range []string{EnvAddr, EnvToken, EnvCrash, EnvPipes, EnvWords, EnvCode} {
		if err := os.Unsetenv(name); err != nil {
			exit(err)
		}
	}
	if err := catchCrash(crash); err != nil {
		exit(err)
	}
	exit(Serve(addr, cfg))
}

// RunTests is for the TestMain of packages whose tests run tasks:
//
//	func TestMain(m *testing.M) { cascade.RunTests(m) }
//
// It makes the test binary an executor when an agent started it as one, and
// runs the tests otherwise.
func RunTests(m interface{ Run() int }) {
	Main()
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "cascade executor: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// catchCrash lets the runtime write why it died to a file that the agent reads:
// a fault in another goroutine than the task's cannot be recovered.
func catchCrash(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open crash file: %w", err)
	}
	defer f.Close() // the runtime keeps a duplicate
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return fmt.Errorf("set crash output: %w", err)
	}
	return nil
}

// Serve connects to an agent and runs its tasks until it says Stop (nil) or the
// link breaks. SIGTERM ends it like a broken link; SIGINT, which a terminal sends
// to the whole group, is left to the agent.
func Serve(addr string, cfg Config) error {
	c := &linkConn{room: make(chan struct{}, 1)}
	cfg.Conn = c
	e := New(cfg)
	c.exec = e
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	link, err := dialAgent(ctx, addr, "pid-"+strconv.Itoa(cfg.PID), cfg, c)
	cancel()
	if err != nil {
		return err
	}
	// Caught and dropped, not ignored: what is ignored stays so in commands.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	defer signal.Stop(term)
	go func() {
		select {
		case <-term:
			e.cancel(ErrTerminated)
		case <-e.ctx.Done():
		}
	}()
	if cfg.Capture {
		if err := e.capture.start(e); err != nil {
			return err
		}
		if e.state, err = newState(); err != nil {
			return fmt.Errorf("look at the state of the process: %w", err)
		}
	}
	err = e.Run()
	if err == nil {
		return link.Close()
	}
	link.Abort(err)
	return err
}

// dialAgent connects to an agent, which is to know this process by the name.
func dialAgent(ctx context.Context, addr, name string, cfg Config, c *linkConn) (*comms.Link, error) {
	link, err := comms.Dial(ctx, addr, comms.Config{
		Self: comms.Identity{Role: "executor", Name: name, PID: cfg.PID,
			Incarnation: uint64(time.Now().UnixNano()), Build: cfg.Build},
		Handler: c, Log: cfg.Log,
		MaxMessage:     MaxMessage,
		Pipes:          cfg.Pipes,
		HeartbeatEvery: -1, // a stopped agent goes on later; a dead one closes the socket
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the agent: %w", err)
	}
	c.link = link
	return link, nil
}

// build is the version of this program, for messages.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return info.Main.Version + " " + s.Value
		}
	}
	return info.Main.Version
}
