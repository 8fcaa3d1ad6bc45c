package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (a *app) manCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "man",
		Short: "Write the man pages, one for each command",
		Long: `Write the man pages of all commands to a folder, which is created if it is
missing.`,
		Example: "  cascade man -o ~/.local/share/man/man1\n  man cascade-run",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output == "" || output == "-" {
				return hintedf("cascade man -o ~/.local/share/man/man1", "man: say which folder to write to (-o FOLDER)")
			}
			if err := os.MkdirAll(output, 0o755); err != nil {
				return unwritten(output, err)
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			err := doc.GenManTree(root, &doc.GenManHeader{Title: "CASCADE", Section: "1", Source: "cascade", Manual: "Cascade"}, output)
			if err != nil {
				return unwritten(output, err)
			}
			pages, err := filepath.Glob(filepath.Join(output, "cascade*.1"))
			if err != nil {
				return fmt.Errorf("find the pages: %w", err)
			}
			slices.Sort(pages)
			if a.json {
				return a.printJSON(map[string]any{"files": pages})
			}
			_, err = fmt.Fprintf(a.out, "%s in %s\n", plural(len(pages), "page"), output)
			return err
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "output `folder`")
	return c
}
