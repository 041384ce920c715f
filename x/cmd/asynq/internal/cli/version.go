package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// version and revision are set with -ldflags "-X …/internal/cli.version=v1.2.3". If empty, the
// build info applies.
var version, revision string

// versionRow is the version in machine-readable output.
type versionRow struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the commit that was built
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionRow() versionRow {
	row := versionRow{Version: version, Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if ok && row.Version == "" {
		row.Version = build.Main.Version
	}
	if row.Version == "" {
		row.Version = "(devel)"
	}
	if ok && row.Revision == "" {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				row.Revision = s.Value
			}
		}
	}
	return row
}

// commit returns "commit 0123456789ab, ", or "" if the build does not record it, as for a program
// that go install built from a module.
func (v versionRow) commit() string {
	if v.Revision == "" {
		return ""
	}
	return "commit " + v.Revision[:min(12, len(v.Revision))] + ", "
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the release of Go",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := newVersionRow()
			return a.show(cmd, v, func(w io.Writer, _ out.Options) error {
				_, err := fmt.Fprintf(w, "asynq version %s (%s%s, %s)\n", v.Version, v.commit(), v.Go, v.Platform)
				return err
			})
		},
	}
	addOutput(cmd)
	return cmd
}
