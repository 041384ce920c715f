package cli

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "man",
		Short:   "Write the manual pages to a directory",
		Example: "  asynq man --dir ~/.local/share/man/man1",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, _ := cmd.Flags().GetString("dir")
			if dir == "" {
				return usage("missing directory: use --dir")
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			// The build date makes the pages reproducible.
			date := time.Unix(0, 0).UTC()
			if text, ok := a.Env("SOURCE_DATE_EPOCH"); ok {
				seconds, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return usage("SOURCE_DATE_EPOCH %q is not a number of seconds", text)
				}
				date = time.Unix(seconds, 0).UTC()
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "ASYNQ", Section: "1", Source: "asynq", Manual: "asynq", Date: &date}
			if err := doc.GenManTree(root, header, dir); err != nil {
				return fmt.Errorf("writing manual pages: %w", err)
			}
			a.printErrf("manual pages written to %s", dir)
			return nil
		},
	}
	cmd.Flags().String("dir", "", "directory to write to, created if missing")
	return cmd
}
