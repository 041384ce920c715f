package cli

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// attemptRow is a failed attempt in machine-readable output.
type attemptRow struct {
	Started *time.Time `json:"started"` // null if the server crashed
	Ended   *time.Time `json:"ended"`
	Kind    string     `json:"kind"`
	Server  string     `json:"server"`
	Error   string     `json:"error"`
}

func newAttemptRow(a asynq.AttemptInfo) attemptRow {
	return attemptRow{Started: moment(a.Started), Ended: moment(a.Ended), Kind: string(a.Kind), Server: a.Server, Error: a.Err}
}

// info is the inverse of newAttemptRow.
func (a attemptRow) info() asynq.AttemptInfo {
	return asynq.AttemptInfo{
		Started: instant(a.Started), Ended: instant(a.Ended), Kind: asynq.AttemptKind(a.Kind), Server: a.Server, Err: a.Error,
	}
}

// writeAttempts writes failed attempts as text, oldest first.
func writeAttempts(b *strings.Builder, attempts []asynq.AttemptInfo) {
	if len(attempts) == 0 {
		return
	}
	fmt.Fprintf(b, "Failed attempts (%d):\n", len(attempts))
	for _, a := range attempts {
		line := out.Time(a.Ended) + "  " + strings.ReplaceAll(string(a.Kind), "_", " ")
		if !a.Started.IsZero() {
			line += " after " + a.Duration().Round(time.Millisecond).String()
		}
		if a.Server != "" {
			line += " on " + a.Server
		}
		fmt.Fprintf(b, "  %s\n    %s\n", out.Clean(line), indent(out.Escape(a.Err), "    "))
	}
}

// progressRow is the progress of a task in machine-readable output.
type progressRow struct {
	Fraction float64   `json:"fraction"` // 0 to 1
	Note     string    `json:"note"`
	At       time.Time `json:"at"`
}

func newProgressRow(p *asynq.TaskProgress) *progressRow {
	if p == nil {
		return nil
	}
	return &progressRow{p.Fraction, p.Note, p.At.UTC()}
}

// progressWidth is the width of a progress bar, in characters.
const progressWidth = 20

// progressText formats the progress of a task.
func progressText(p *asynq.TaskProgress) string {
	if p == nil {
		return ""
	}
	done := int(math.Floor(p.Fraction * progressWidth))
	text := fmt.Sprintf("[%s%s] %d%%", strings.Repeat("#", done), strings.Repeat("-", progressWidth-done), int(math.Floor(100*p.Fraction)))
	if p.Note != "" {
		text += ", " + p.Note
	}
	return fmt.Sprintf("%s (%s)", text, out.Time(p.At))
}
