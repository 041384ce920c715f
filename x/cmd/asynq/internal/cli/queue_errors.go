package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/asynq-go/asynq"
)

// namedQueues is the maximum number of queues that an error message names.
const namedQueues = 3

// queueErrors prints the errors of queues, once per distinct error, and returns an error if there
// are any. It returns context.Canceled without printing it.
func (a *app) queueErrors(results []asynq.QueueInfoResult) error {
	type failure struct {
		err    error
		queues []string
	}
	var failures []*failure
	byText := make(map[string]*failure)
	for _, r := range results {
		if errors.Is(r.Err, context.Canceled) {
			return r.Err
		}
		if r.Err == nil {
			continue
		}
		text := sameError(r.Err)
		if byText[text] == nil {
			byText[text] = &failure{err: r.Err}
			failures = append(failures, byText[text])
		}
		byText[text].queues = append(byText[text].queues, r.Queue)
	}
	worst := ExitDone
	for _, f := range failures {
		err := inQueue(f.queues[0], f.err)
		if len(f.queues) > 1 {
			err = fmt.Errorf("%d queues (%s): %w", len(f.queues), queueNames(f.queues), f.err)
		}
		a.printErrf("asynq: %s", message(err))
		a.hint(err)
		if code := a.exitCode(err); worst == ExitDone || code < worst {
			worst = code // a failure outweighs a missing queue
		}
	}
	if worst == ExitDone {
		return nil
	}
	return exitError{errPrinted, worst}
}

// sameError returns the text of an error without the local address, which differs per connection.
func sameError(err error) string {
	text := err.Error()
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Source != nil {
		text = strings.ReplaceAll(text, op.Source.String(), "")
	}
	return text
}

// queueNames quotes the first names and counts the others.
func queueNames(names []string) string {
	quoted := make([]string, 0, namedQueues)
	for _, name := range names[:min(len(names), namedQueues)] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
