package hosted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/asynq-go/asynq"
)

// command runs tasks of one type.
type command struct {
	Command

	params []gate
	list   gate
	as     *credential // nil means the service's user
	log    *slog.Logger
}

func newCommand(c Command, log *slog.Logger) (*command, error) {
	r := &command{Command: c, log: log}
	for _, param := range c.Params {
		r.params = append(r.params, newGate(param.Rule))
	}
	if c.List != nil {
		r.list = newGate(c.List.Rule)
	}
	r.Grace = or(r.Grace, defaultGrace)
	r.MaxOutput = or(r.MaxOutput, 64<<10)
	r.Dir = or(r.Dir, "/")
	if c.User != "" {
		var err error
		if r.as, err = lookupUser(c.User); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// defaultGrace is the default of Command.Grace.
const defaultGrace = 5 * time.Second

// maxStderr limits the standard error in the error of a task, in bytes.
const maxStderr = 1 << 10

// ProcessTask runs the program and maps its exit to an outcome.
func (c *command) ProcessTask(ctx context.Context, t *asynq.Task) error {
	args, err := c.arguments(t.Payload())
	if err != nil {
		return archive("invalid task: %w", err)
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not finished within %v", c.Timeout))
		defer cancel()
	}
	kept, complaint := newOutput(c.MaxOutput), newOutput(maxStderr)
	cmd := exec.Command(c.Path, args...)
	cmd.Dir, cmd.Env = c.Dir, c.environment(ctx, t)
	cmd.Stdout, cmd.Stderr = kept, complaint
	if c.WithStderr {
		// A shared writer is one pipe, which keeps the order.
		both := io.MultiWriter(kept, complaint)
		cmd.Stdout, cmd.Stderr = both, both
	}
	if c.Stdin {
		cmd.Stdin = bytes.NewReader(t.Payload())
	}
	cmd.WaitDelay = time.Second // for processes that left the group and keep the output open
	stopped, err := runGroup(ctx, cmd, c.as, c.Grace)
	if cmd.ProcessState == nil {
		return fmt.Errorf("cannot start %s: %w", filepath.Base(c.Path), err)
	}
	storeResult(ctx, t, kept.bytes(), c.log)
	if stopped {
		return c.stoppedError(ctx, cmd, kept.bytes(), complaint.bytes())
	}
	return c.exitError(ctx, cmd, err, complaint.bytes())
}

// stoppedError returns the error of a program that was stopped. The exit code does not matter: many
// programs exit with 0 after SIGTERM, and how much of the work is done is unknown.
func (c *command) stoppedError(ctx context.Context, cmd *exec.Cmd, printed, complaint []byte) error {
	err := fmt.Errorf("%s was stopped: %w (%s)", filepath.Base(c.Path), context.Cause(ctx), cmd.ProcessState)
	if !c.WithStderr {
		printed = slices.Concat(printed, []byte("\n"), complaint)
	}
	if text := excerpt(printed, maxStderr); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// environment returns the environment of the program: the configured variables and the task's.
func (c *command) environment(ctx context.Context, t *asynq.Task) []string {
	a := attemptOf(ctx)
	env := []string{
		"ASYNQ_TASK_ID=" + escape(a.id), "ASYNQ_TASK_TYPE=" + escape(t.Type()), "ASYNQ_QUEUE=" + escape(a.queue),
		"ASYNQ_ATTEMPT=" + strconv.Itoa(a.number), "ASYNQ_MAX_RETRY=" + strconv.Itoa(a.maxRetry),
	}
	if _, ok := c.Env["PATH"]; !ok {
		env = append(env, "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	for name, value := range c.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// exitError returns the error of a program that ended by itself; nil for success.
func (c *command) exitError(ctx context.Context, cmd *exec.Cmd, waited error, complaint []byte) error {
	code := cmd.ProcessState.ExitCode() // -1 after a signal
	var exit *exec.ExitError
	if waited != nil && !errors.As(waited, &exit) && !errors.Is(waited, exec.ErrWaitDelay) && !errors.Is(waited, errStdin) {
		c.log.WarnContext(ctx, "the output of a command may be incomplete", "command", c.Path, "error", waited)
	}
	if c.isSuccess(code) {
		return nil
	}
	err := fmt.Errorf("%s: %s", filepath.Base(c.Path), cmd.ProcessState)
	if text := excerpt(complaint, maxStderr); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if slices.Contains(c.Exit.Archive, code) || c.Exit.ArchiveOthers && code >= 0 && !slices.Contains(c.Exit.Retry, code) {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// isSuccess reports whether an exit code means success.
func (c *command) isSuccess(code int) bool {
	if code == 0 {
		return !slices.Contains(c.Exit.Retry, 0) && !slices.Contains(c.Exit.Archive, 0)
	}
	return slices.Contains(c.Exit.Done, code)
}
