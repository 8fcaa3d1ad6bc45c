package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/internal/outfile"
	"github.com/cascade-run/cascade/internal/wfformat"
)

func (a *app) importCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "import",
		Short:   "Import a recorded workflow of another system as a job",
		Example: "  cascade import wfformat montage.json -o job.yaml --profile job.profile.json",
		Args:    a.recording,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.importWfFormatCommand())
	return c
}

// recording refuses an argument where a format is wanted, and says what to type for a file.
func (a *app) recording(c *cobra.Command, args []string) error {
	if len(args) > 0 && strings.ContainsAny(args[0], "./") {
		return badInputf("import: say the format that the recording is in: %s", a.hint("import", "wfformat", args[0]))
	}
	return known(c, args)
}

func (a *app) importWfFormatCommand() *cobra.Command {
	opt := wfformat.Defaults()
	var job, profile, most string
	c := &cobra.Command{
		Use:   "wfformat FILE",
		Short: "Import a WfFormat recording as a job and a profile",
		Long: `Create a job from a workflow recorded in WfFormat 1.4, 1.5 or 1.6. The job has
the same graph. Its programs are replaced by sleep and truncate, which take the
recorded time and write the recorded sizes. The parameters time_scale,
byte_scale and max_bytes of the job scale both; the flags set their defaults.
The profile holds the cost of the tasks with these defaults: use it with cascade
plan job.yaml --profile FILE.`,
		Example: `  cascade import wfformat montage.json -o job.yaml --profile job.profile.json
  cascade import wfformat montage.json -o job.yaml --time-scale 0.01
  cascade plan job.yaml --profile job.profile.json --cpu 16`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if most != "" {
				n, err := units.RAMInBytes(most)
				if err != nil {
					return badInputf("--max-bytes %q: want bytes, such as 64MiB", most)
				}
				opt.MaxBytes = n
			}
			return a.importWfFormat(args[0], job, profile, opt)
		},
	}
	f := c.Flags()
	f.StringVarP(&job, "output", "o", "-", "output `file`; - is standard output")
	f.StringVar(&profile, "profile", "", "profile file to write")
	f.Float64Var(&opt.TimeScale, "time-scale", opt.TimeScale, "factor for recorded durations")
	f.Float64Var(&opt.ByteScale, "byte-scale", opt.ByteScale, "factor for recorded sizes and memory")
	f.StringVar(&most, "max-bytes", "", "maximum size of a file after scaling, such as 64MiB")
	f.BoolVar(&opt.Inputs, "inputs", false, "also create the files that no task writes, each by a task")
	return c
}

// maxRecording bounds the file that is read: the largest of the collection has 20 MB.
const maxRecording = 1 << 30

func (a *app) importWfFormat(path, job, profile string, opt wfformat.Options) error {
	b, name, err := a.readRecording(path)
	if err != nil {
		return badInput{err}
	}
	im, err := wfformat.Read(name, b, opt)
	if err != nil {
		return badInput{err}
	}
	yaml, err := im.Graph.YAML()
	if err != nil {
		return err
	}
	costs, err := im.Profile.Encode()
	if err != nil {
		return err
	}
	if profile != "" {
		if err := outfile.WriteBytes(profile, costs); err != nil {
			return badInputf("write profile: %w", err)
		}
	}
	if job == "-" {
		_, err = a.bytes().Write(yaml)
	} else if err = outfile.WriteBytes(job, yaml); err != nil {
		err = badInputf("write job: %w", err)
	}
	if err != nil {
		return err
	}
	a.tellImport(im, job)
	return nil
}

func (a *app) readRecording(path string) (b []byte, name string, err error) {
	from, name := a.in, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, "", fmt.Errorf("read recording: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		from, name = f, path
	}
	if b, err = io.ReadAll(io.LimitReader(from, maxRecording+1)); err != nil {
		return nil, "", fmt.Errorf("read recording: %w", err)
	}
	if len(b) > maxRecording {
		return nil, "", errors.New(name + ": it is larger than 1 GiB")
	}
	return b, name, nil
}

// shownNotes bounds what is told of a recording that leaves much open.
const shownNotes = 10

// tellImport says on standard error what was made; standard output may be the job.
func (a *app) tellImport(im *wfformat.Import, job string) {
	for i, n := range im.Notes {
		if i == shownNotes {
			a.note("and %d more like these", len(im.Notes)-i)
			break
		}
		a.note("%s", n)
	}
	to := ""
	if job != "-" {
		to = job + ": "
	}
	a.note("%sjob %s: %s, %s, %s from outside", to, strings.TrimSpace(im.Graph.Name),
		plural(im.Graph.NumTasks(), "task"), plural(im.Edges, "edge"), plural(im.External, "file"))
}
