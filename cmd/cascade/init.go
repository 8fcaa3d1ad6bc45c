package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/internal/outfile"
)

// starts are the files of first jobs, by the language of their functions.
//
//go:embed all:starts
var starts embed.FS

var startKinds = []string{"commands", "python", "go"}

func (a *app) initCommand() *cobra.Command {
	var kind, name string
	c := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write a first job of your own: commands, Python or Go",
		Long: `Write a small job to a folder, which is created if it is missing: of
commands, or with --kind of Python or Go functions. The job is complete and runs
at once. No file is replaced.`,
		Example: "  cascade init\n  cascade init forecast --kind python\n  cascade run forecast/job.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if name == "" {
				full, err := filepath.Abs(dir)
				if err != nil {
					return fmt.Errorf("find %s: %w", dir, err)
				}
				name = filepath.Base(full)
			}
			if strings.ContainsAny(name, "\"'\n\\") || strings.TrimSpace(name) == "" {
				return badInputf("--name %q: want a name without quotes", name)
			}
			return a.writeStart(dir, kind, name)
		},
	}
	choose(c.Flags(), &kind, "kind", "k", "what the tasks are", startKinds...)
	c.Flags().StringVar(&name, "name", "", "name of the job (default that of the folder)")
	return c
}

// writeStart writes the files of a first job.
func (a *app) writeStart(dir, kind, name string) error {
	from := path.Join("starts", kind)
	var files []string
	texts := map[string][]byte{}
	err := fs.WalkDir(starts, from, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := starts.ReadFile(at)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimSuffix(strings.TrimPrefix(at, from+"/"), ".txt")))
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			return hintedf("choose another folder", "init: %s is there already", to)
		}
		files = append(files, to)
		texts[to] = []byte(strings.ReplaceAll(string(b), "FIRST", name))
		return nil
	})
	if err != nil {
		return err
	}
	for _, to := range files {
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil { // as the user's umask says
			return unwritten(to, err)
		}
		if err := outfile.WriteBytes(to, texts[to]); err != nil {
			return unwritten(to, err)
		}
	}
	job := filepath.Join(dir, "job.yaml")
	if a.json {
		return a.printJSON(map[string]any{"job": job, "files": files})
	}
	for _, f := range files {
		if _, err := fmt.Fprintln(a.out, f); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.out, "next:\n  %s\n  %s\n", a.hint("validate", job), a.hint("run", job))
	return err
}
