package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/editor"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newTaskEdit(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit ID...",
		Short: "Edit the payload, queue, time and limits of waiting or archived tasks in an editor",
		Long: `Edit the payload, queue, time and limits of tasks that are pending, scheduled, in retry, archived or in
a group, in the editor that VISUAL or EDITOR names. A JSON payload is indented for editing, and a
payload that is not text is in base64. If nothing is edited, nothing changes. If the task changes in
the meantime, the command fails and keeps the edited file.`,
		Example: "  EDITOR='code --wait' asynq task edit 4f3c…",
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := editor.Command(a.Env)
			if err != nil {
				return usage("%w; or use asynq task update", err)
			}
			return a.eachTask(cmd, args, func(i *asynq.Inspector, ref asynq.TaskRef) error {
				t, err := i.GetTaskInfo(ref.Queue, ref.ID)
				if err != nil {
					return err
				}
				return a.editTask(cmd, i, t, command)
			})
		},
	}
	addTaskID(a, cmd)
	return cmd
}

// editTask edits a task in an editor.
func (a *app) editTask(cmd *cobra.Command, i *asynq.Inspector, t *asynq.TaskInfo, command []string) error {
	if t.State == asynq.TaskStateActive || t.State == asynq.TaskStateCompleted {
		return fmt.Errorf("cannot edit task %q of queue %q: it is %v", t.ID, t.Queue, t.State)
	}
	text, form := taskText(t, a.where())
	path, run, err := editor.File(cmd.Context(), command, text)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			_ = os.Remove(path)
		}
	}()
	run.Stdin, run.Stdout, run.Stderr = a.In, a.Err, a.Err
	if f, ok := a.In.(*os.File); ok {
		run.Stdin = f
	}
	if err := run.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("editor: %w: nothing was changed", err)
		}
		return err
	}
	edited, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	keep := func(err error) error {
		kept = true
		return fmt.Errorf("%w: the edited text is in %s", err, path)
	}
	payload, opts, err := taskEdit(t, edited, form)
	if err != nil {
		return keep(err)
	}
	if payload == nil && len(opts) == 0 {
		a.printErrf("task %q of queue %q not changed", t.ID, t.Queue)
		return nil
	}
	now, err := i.GetTaskInfo(t.Queue, t.ID)
	if err != nil {
		return keep(err)
	}
	if !sameTask(t, now) {
		return keep(fmt.Errorf("task %q of queue %q has changed in the meantime: nothing was changed", t.ID, t.Queue))
	}
	updated, err := i.UpdateTask(cmd.Context(), t.Queue, t.ID, payload, opts...)
	if err != nil {
		return keep(err)
	}
	a.printErrf("task %q of queue %q updated", updated.ID, updated.Queue)
	return nil
}

// sameTask reports whether two reads of a task show the same message and state.
func sameTask(a, b *asynq.TaskInfo) bool {
	x, y := *a, *b
	for _, t := range []*asynq.TaskInfo{&x, &y} {
		t.Age, t.Progress = 0, nil
		if t.State == asynq.TaskStatePending {
			t.NextProcessAt = time.Time{} // it is the time of the read
		}
	}
	return reflect.DeepEqual(x, y)
}

// taskText returns the text to edit: a line per setting, an empty line, and the payload.
func taskText(t *asynq.TaskInfo, where string) ([]byte, editor.Form) {
	payload, form := editor.Show(t.Payload)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Task %s\n# of type %s, %v%s.\n", out.Clean(t.ID), out.Clean(t.Type), t.State, out.Clean(where))
	fmt.Fprintf(&b, "# An empty process_at keeps the time. The payload follows the empty line%s.\n",
		map[editor.Form]string{editor.JSON: ", as JSON", editor.Base64: ", in base64"}[form])
	for _, s := range editSettings {
		fmt.Fprintf(&b, "%s: %s\n", s.name, s.value(t))
	}
	b.WriteString("\n")
	b.Write(payload)
	return b.Bytes(), form
}

// editSetting is a setting of a task that can be edited.
type editSetting struct {
	name   string
	value  func(*asynq.TaskInfo) string
	option func(text string) (asynq.Option, error)
}

var editSettings = []editSetting{
	{"queue", func(t *asynq.TaskInfo) string { return out.Name(t.Queue) }, func(s string) (asynq.Option, error) {
		if strings.HasPrefix(s, `"`) {
			name, err := strconv.Unquote(s)
			return asynq.Queue(name), err
		}
		return asynq.Queue(s), nil
	}},
	{"max_retry", func(t *asynq.TaskInfo) string { return strconv.Itoa(t.MaxRetry) }, func(s string) (asynq.Option, error) {
		n, err := strconv.Atoi(s)
		if err == nil && n < 0 {
			err = errors.New("must not be negative")
		}
		return asynq.MaxRetry(n), err
	}},
	{"timeout", func(t *asynq.TaskInfo) string { return t.Timeout.String() }, durationSetting(asynq.Timeout)},
	{"retention", func(t *asynq.TaskInfo) string { return t.Retention.String() }, durationSetting(asynq.Retention)},
	{"process_at", processAtText, func(s string) (asynq.Option, error) {
		if s == "" {
			return nil, errors.New("must not be removed: archive or delete the task instead")
		}
		at, err := parseTime(s)
		return asynq.ProcessAt(at), err
	}},
}

func durationSetting(option func(time.Duration) asynq.Option) func(string) (asynq.Option, error) {
	return func(s string) (asynq.Option, error) {
		d, err := time.ParseDuration(s)
		if err == nil && d < 0 {
			err = errors.New("must not be negative")
		}
		return option(d), err
	}
}

// processAtText returns the time at which a task is due; "" if it has none.
func processAtText(t *asynq.TaskInfo) string {
	if t.State != asynq.TaskStateScheduled && t.State != asynq.TaskStateRetry {
		return ""
	}
	return t.NextProcessAt.UTC().Format(time.RFC3339)
}

// taskEdit returns what edited text changes in a task: a payload, or nil, and options.
func taskEdit(t *asynq.TaskInfo, text []byte, form editor.Form) (payload []byte, opts []asynq.Option, err error) {
	head, body, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok {
		return nil, nil, errors.New("the empty line before the payload is missing")
	}
	values := map[string]string{}
	for line := range strings.Lines(string(head)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		values[name] = strings.TrimSpace(value)
	}
	for _, s := range editSettings {
		value, ok := values[s.name]
		delete(values, s.name)
		if !ok || value == s.value(t) {
			continue
		}
		option, err := s.option(value)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		opts = append(opts, option)
	}
	for name := range values {
		return nil, nil, fmt.Errorf("unknown setting %q", name)
	}
	payload, err = editor.Payload(t.Payload, body, form)
	switch {
	case err != nil:
		return nil, nil, err
	case bytes.Equal(payload, t.Payload):
		return nil, opts, nil
	}
	return append([]byte{}, payload...), opts, nil // nil would leave the payload as it is
}
