package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// version is set with -ldflags "-X …/internal/cli.version=v1.2.3"; else it is what the build knows.
var version string

// versionRow is the version as programs see it.
type versionRow struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionRow() versionRow {
	row := versionRow{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if ok && row.Version == "" {
		row.Version = build.Main.Version
	}
	if row.Version == "" {
		row.Version = "(devel)"
	}
	if ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				row.Revision = s.Value
			}
		}
	}
	return row
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := newVersionRow()
			return a.show(cmd, v, func(w io.Writer, _ out.Options) error {
				_, err := fmt.Fprintf(w, "asynq version %s (%s, %s)\n", v.Version, v.Go, v.Platform)
				return err
			})
		},
	}
	addOutput(cmd)
	return cmd
}
