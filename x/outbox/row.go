package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq"
)

// maxMessage is the size that Redis accepts, less some room for what a message contains besides the
// payload and the headers.
const maxMessage = 511 << 20

// row is a row of the table.
type row struct {
	id        string // a UUID whose order is that of its creation
	typename  string
	payload   []byte
	headers   string // a JSON object
	options   string // a JSON array of texts
	createdAt time.Time

	attempts  int       // claims, including this one
	firstSent time.Time // when the first relay may have sent it to Redis
}

// newRow returns the row of a task. It returns an error if a relay could not enqueue the row.
func newRow(task *asynq.Task, opts []asynq.Option, now time.Time) (*row, error) {
	// The relay adds a key, which some options exclude.
	if err := validate(task, append([]asynq.Option{asynq.IdempotencyKey("outbox", time.Hour)}, opts...)...); err != nil {
		return nil, err
	}
	if strings.ContainsRune(task.Type(), 0) {
		return nil, errors.New("outbox: the type of the task must not contain a zero byte: Postgres cannot store it")
	}
	texts := []string{}
	for _, opt := range append(task.Options(), asynq.NewTask("", nil, opts...).Options()...) { // without nil options
		if wait, ok := opt.Value().(time.Duration); ok && opt.Type() == asynq.ProcessInOpt {
			opt = asynq.ProcessAt(now.Add(wait))
		}
		text, err := asynq.FormatOption(opt)
		if err != nil {
			return nil, fmt.Errorf("outbox: %w", err)
		}
		texts = append(texts, text)
	}
	options, err := json.Marshal(texts)
	if err != nil {
		return nil, fmt.Errorf("outbox: options: %w", err)
	}
	headers := []byte("{}")
	if len(task.Headers()) > 0 {
		if headers, err = json.Marshal(task.Headers()); err != nil {
			return nil, fmt.Errorf("outbox: headers: %w", err)
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	payload := task.Payload()
	if payload == nil {
		payload = []byte{} // not NULL
	}
	r := &row{
		id: id.String(), typename: task.Type(), payload: payload, headers: string(headers), options: string(options), createdAt: now,
	}
	_, _, err = r.task(defaultIdempotencyTTL, now)
	return r, err
}

// validate returns an error if a task can never be enqueued.
func validate(task *asynq.Task, opts ...asynq.Option) error {
	if len(task.Payload()) > maxMessage {
		return fmt.Errorf("outbox: the payload has %d bytes, more than the %d that Redis accepts", len(task.Payload()), maxMessage)
	}
	if err := task.Validate(opts...); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// errExpired means that the task of a row expired before a relay enqueued it.
var errExpired = errors.New("outbox: the task has expired")

// task returns the task of a row with an idempotency key, and the TTL of the key. The options of
// the row take precedence over its own ID and key. ExpiresIn counts from the creation of the row.
// It returns errExpired if that time has passed.
func (r *row) task(ttl time.Duration, now time.Time) (*asynq.Task, time.Duration, error) {
	var texts []string
	if err := json.Unmarshal([]byte(r.options), &texts); err != nil {
		return nil, 0, fmt.Errorf("outbox: the column options is not a JSON array of texts: %w", err)
	}
	var headers map[string]string
	if err := json.Unmarshal([]byte(r.headers), &headers); err != nil {
		return nil, 0, fmt.Errorf("outbox: the column headers is not a JSON object of texts: %w", err)
	}
	if len(headers) == 0 {
		headers = nil
	}
	opts := []asynq.Option{asynq.TaskID(r.id), asynq.IdempotencyKey("outbox:"+r.id, ttl)}
	for _, text := range texts {
		opt, err := asynq.ParseOption(text)
		if err != nil {
			return nil, 0, fmt.Errorf("outbox: %w", err)
		}
		switch left, _ := opt.Value().(time.Duration); opt.Type() {
		case asynq.IdempotencyKeyOpt:
			ttl = keyTTL(opt)
		case asynq.ExpiresInOpt:
			if waited := now.Sub(r.createdAt); left > 0 && waited > 0 {
				if waited >= left {
					return nil, 0, errExpired
				}
				opt = asynq.ExpiresIn(left - waited)
			}
		}
		opts = append(opts, opt)
	}
	task := asynq.NewTaskWithHeaders(r.typename, r.payload, headers, opts...)
	return task, ttl, validate(task)
}

// isFirst reports whether the claim at a time is the first one after which the row is sent.
func (r *row) isFirst(claimed time.Time) bool { return micros(r.firstSent) == micros(claimed) }

// keyTTL returns the TTL of an IdempotencyKey option.
func keyTTL(opt asynq.Option) time.Duration {
	pair, _ := opt.Value().([2]string)
	ttl, _ := time.ParseDuration(pair[1]) // an invalid one is an error of validate
	return ttl
}

// maxError is the number of bytes of an error that are stored.
const maxError = 2000

// errorText returns the text of an error as all databases accept it.
func errorText(err error) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	return text
}
