package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"os/exec"
	"strings"
	"time"
)

// Mail sends alerts by a command that reads a message from its standard input, such as
// sendmail -t. There is no shell.
type Mail struct {
	// Command is the path of the command and its arguments, such as {"/usr/sbin/sendmail", "-t"}.
	Command []string

	// To are the recipients, and From is the sender. If From is empty, the command chooses it.
	To   []string
	From string
}

// Name returns "mail" and the recipients.
func (m *Mail) Name() string { return "mail " + strings.Join(m.To, ", ") }

// Send runs the command. The error contains the end of its output.
func (m *Mail) Send(ctx context.Context, a *Alert) error {
	if err := checkSend(ctx, a); err != nil {
		return err
	}
	if len(m.Command) == 0 || len(m.To) == 0 {
		return fmt.Errorf("%w: the command or the recipients are missing", ErrPermanent)
	}
	cmd := exec.CommandContext(ctx, m.Command[0], m.Command[1:]...)
	cmd.Stdin = bytes.NewReader(m.message(a))
	cmd.WaitDelay = time.Second // for processes that keep the output open
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	const most = 500 // bytes
	if text := strings.TrimSpace(string(out[max(0, len(out)-most):])); text != "" {
		return fmt.Errorf("alert: %w: %q", err, text)
	}
	return fmt.Errorf("alert: %w", err)
}

// message returns the message with its headers. Names of queues may contain any byte, so no header
// contains a line break.
func (m *Mail) message(a *Alert) []byte {
	oneLine := strings.NewReplacer("\r", " ", "\n", " ")
	var b bytes.Buffer
	header := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, oneLine.Replace(value))
		}
	}
	header("From", m.From)
	header("To", strings.Join(m.To, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", oneLine.Replace(a.Subject())))
	header("Date", a.At.UTC().Format("Mon, 02 Jan 2006 15:04:05 +0000"))
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "8bit")
	header("Auto-Submitted", "auto-generated")
	b.WriteString("\n")
	for line := range strings.SplitSeq(strings.ToValidUTF8(strings.ReplaceAll(a.Text(), "\r", " "), "�"), "\n") {
		if line == "." {
			line = ". " // would end the message
		}
		b.WriteString(line + "\n")
	}
	return b.Bytes()
}
