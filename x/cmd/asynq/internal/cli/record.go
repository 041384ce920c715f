package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// exportVersion is the version of the export format. An import rejects newer versions.
const exportVersion = 1

// exportMark is the first or last line of an export.
type exportMark struct {
	Export *exportHead `json:"asynq_export,omitempty"`
	End    *exportEnd  `json:"asynq_export_end,omitempty"`
}

// exportLine is any line: a mark or a task.
type exportLine struct {
	exportMark
	exportTask
}

// exportHead is the first line.
type exportHead struct {
	Version    int       `json:"version"`
	ID         string    `json:"id"` // of this export: the idempotency key of its import
	Queue      string    `json:"queue"`
	Paused     bool      `json:"paused"`
	ExportedAt time.Time `json:"exported_at"`
}

// exportEnd is the last line: an export without it is truncated.
type exportEnd struct {
	Tasks int64 `json:"tasks"`
}

// exportTask is a task. Bytes that are not UTF-8 are in base64.
type exportTask struct {
	N                int64             `json:"n"`
	ID               string            `json:"id"`
	Type             string            `json:"type"`
	State            string            `json:"state"`
	At               *time.Time        `json:"at,omitempty"`
	Payload          *string           `json:"payload,omitempty"`
	PayloadBase64    *string           `json:"payload_base64,omitempty"`
	Headers          map[string]string `json:"headers,omitempty"`
	Group            string            `json:"group,omitempty"`
	MaxRetry         int               `json:"max_retry"`
	Retried          int               `json:"retried,omitempty"`
	ErrorMessage     string            `json:"error_message,omitempty"`
	LastFailedAt     *time.Time        `json:"last_failed_at,omitempty"`
	TimeoutSeconds   int64             `json:"timeout_seconds,omitempty"`
	Deadline         *time.Time        `json:"deadline,omitempty"`
	RetentionSeconds int64             `json:"retention_seconds,omitempty"`
	CompletedAt      *time.Time        `json:"completed_at,omitempty"`
	Result           *string           `json:"result,omitempty"`
	ResultBase64     *string           `json:"result_base64,omitempty"`
	UniqueKey        string            `json:"unique_key,omitempty"`
	LockedUntil      *time.Time        `json:"locked_until,omitempty"`
	Attempts         []attemptRow      `json:"attempts,omitempty"`
	Unreadable       *string           `json:"unreadable_base64,omitempty"`
}

func newExportTask(r *asynq.TaskRecord, n int64) *exportTask {
	t := &exportTask{
		N: n, ID: r.ID, Type: r.Type, State: r.State.String(), At: moment(r.At), Headers: r.Headers, Group: r.Group,
		MaxRetry: r.MaxRetry, Retried: r.Retried, ErrorMessage: r.LastErr, LastFailedAt: moment(r.LastFailedAt),
		TimeoutSeconds: int64(r.Timeout / time.Second), Deadline: moment(r.Deadline), RetentionSeconds: int64(r.Retention / time.Second),
		CompletedAt: moment(r.CompletedAt), UniqueKey: r.UniqueKey, LockedUntil: moment(r.LockedUntil),
	}
	for _, a := range r.Attempts {
		t.Attempts = append(t.Attempts, newAttemptRow(a))
	}
	t.Payload, t.PayloadBase64 = exportBytes(r.Payload)
	t.Result, t.ResultBase64 = exportBytes(r.Result)
	if r.Unreadable != nil {
		text := base64.StdEncoding.EncodeToString(r.Unreadable)
		t.Unreadable = &text
	}
	return t
}

func exportBytes(b []byte) (text, encoded *string) {
	if len(b) == 0 {
		return nil, nil
	}
	s, coded := textOrBase64(b)
	if coded != "" {
		return nil, &coded
	}
	return &s, nil
}

func importBytes(name string, text, encoded *string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, fmt.Errorf("%q and %q are mutually exclusive", name, name+"_base64")
	case text != nil:
		return []byte(*text), nil
	case encoded != nil:
		b, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name+"_base64", err)
		}
		return b, nil
	}
	return nil, nil
}

// record converts the line to the record to import.
func (t *exportTask) record() (*asynq.TaskRecord, error) {
	state, ok := filter.ParseState(t.State)
	switch {
	case !ok:
		return nil, fmt.Errorf("unknown state %q", t.State)
	case t.N < 1:
		return nil, errors.New(`"n" must be at least 1 and unique in the file`)
	}
	r := &asynq.TaskRecord{
		Number: t.N, ID: t.ID, Type: t.Type, State: state, At: instant(t.At), Headers: t.Headers, Group: t.Group,
		MaxRetry: t.MaxRetry, Retried: t.Retried, LastErr: t.ErrorMessage, LastFailedAt: instant(t.LastFailedAt),
		Timeout: time.Duration(t.TimeoutSeconds) * time.Second, Deadline: instant(t.Deadline),
		Retention: time.Duration(t.RetentionSeconds) * time.Second, CompletedAt: instant(t.CompletedAt),
		UniqueKey: t.UniqueKey, LockedUntil: instant(t.LockedUntil),
	}
	for _, a := range t.Attempts {
		r.Attempts = append(r.Attempts, a.info())
	}
	var err error
	if r.Payload, err = importBytes("payload", t.Payload, t.PayloadBase64); err != nil {
		return nil, err
	}
	if r.Result, err = importBytes("result", t.Result, t.ResultBase64); err != nil {
		return nil, err
	}
	if r.Unreadable, err = importBytes("unreadable", nil, t.Unreadable); err != nil {
		return nil, err
	}
	return r, nil
}

func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
