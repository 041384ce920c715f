package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// Call is a request that is let in.
type Call struct {
	W     http.ResponseWriter
	R     *http.Request
	Who   *auth.Holder
	Rules *Rules
	Scope auth.Scope          // that the operation needs, and Who has
	Find  func() *auth.Holder // who holds the secret of the call by now; nil: nobody
}

// Handler answers a call, or returns why it cannot: an error that ProblemOf understands.
type Handler func(c *Call) error

// Route is an operation.
type Route struct {
	Pattern string // as for http.ServeMux
	Scope   auth.Scope
	Handler Handler
}

// Queue is the queue in the path, if the caller may see it.
func (c *Call) Queue() (string, error) {
	queue := c.R.PathValue("queue")
	return queue, c.Admit(queue)
}

// Admit tells why the caller must not use a queue; nil if nothing is wrong.
func (c *Call) Admit(queue string) error {
	if !c.Who.Sees(queue) {
		return Problemf(http.StatusForbidden, KindForbidden, "the token %q is not good for the queue %q", c.Who.Name, queue)
	}
	if err := CheckQueueName(queue); err != nil {
		return wrongf("", "%v", err)
	}
	if !c.Rules.Known(queue) {
		return Problemf(http.StatusNotFound, KindQueue, "the configuration has no queue %q", queue)
	}
	return nil
}

// Recheck tells whether the caller may still have what it has waited for: a reload may have taken its token away meanwhile.
func (c *Call) Recheck(queues ...string) error {
	who := c.Find()
	switch {
	case who == nil:
		return Unknown()
	case !who.May(c.Scope):
		return Lacks(who, c.Scope)
	}
	c.Who = who
	for _, queue := range queues {
		if err := c.Admit(queue); err != nil {
			return err
		}
	}
	return nil
}

// Unknown is the problem of a secret that is nobody's.
func Unknown() *Problem {
	return Problemf(http.StatusUnauthorized, KindUnauthorized, "nobody has this token")
}

// Lacks is the problem of a token without a scope.
func Lacks(who *auth.Holder, scope auth.Scope) *Problem {
	return Problemf(http.StatusForbidden, KindForbidden, "the token %q lacks the scope %q", who.Name, scope)
}

// Body reads the body, for which the service has set a deadline.
func (c *Call) Body() ([]byte, error) {
	if c.R.Body == nil || c.R.Body == http.NoBody {
		return nil, nil
	}
	var buf bytes.Buffer
	if n := c.R.ContentLength; n > 0 {
		buf.Grow(int(min(n, c.Rules.MaxBody, 1<<20)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(c.W, c.R.Body, c.Rules.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, Problemf(http.StatusRequestEntityTooLarge, KindTooLarge, "the body is longer than %d bytes: send less at a time", large.Limit)
	case err != nil:
		return nil, wrongf("", "the body ends too early, or comes too slowly")
	}
	return buf.Bytes(), nil
}

// Decode reads the body into a struct. An empty body is as good as {}.
func (c *Call) Decode(into any) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	if !utf8.Valid(body) {
		return wrongf("", "the body is not UTF-8: send other bytes as payload_base64 or result_base64")
	}
	if p := Unmarshal(body, "", into); p != nil {
		return p
	}
	return nil
}

// Unmarshal reads JSON into a struct that names all that there may be. Pointer is where the JSON is in the body.
func Unmarshal(body []byte, pointer string, into any) *Problem {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return wrongf(pointer, "there is something after the JSON value")
		}
		if isStrict(body, reflect.TypeOf(into)) {
			return nil
		}
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return wrongf(pointer, "the body is not JSON: %v, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return wrongf(pointer, "the body is not JSON: it ends too early")
	}
	var value json.RawMessage // without what may come after it
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&value); err != nil {
		return wrongf(pointer, "the body is not JSON")
	}
	var f finder
	f.look(value, pointer, reflect.TypeOf(into))
	(&strict{text: value, found: &f}).value(shapeOf(reflect.TypeOf(into)), pointer)
	return Invalid(f.found...)
}

// escapePointer makes a name a part of a JSON pointer.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// Wait is the parameter of the query of this name, bounded by the rules; zero if there is none.
func (c *Call) Wait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 {
		return 0, errors.New(`this is no duration such as "30s" or "1h30m"`)
	}
	return min(wait, c.Rules.MaxWait), nil
}

// sendTimeout is how long a client may take to read an answer.
const sendTimeout = 30 * time.Second

// ErrClientGone says that the client has not got its answer, or not all of it.
var ErrClientGone = errors.New("the client has gone")

// Send answers with JSON. The error is ErrClientGone.
func (c *Call) Send(status int, body []byte) error {
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	// The deadline must not outlive the answer: the connection is kept for others, which may have to wait.
	control := http.NewResponseController(c.W)
	_ = control.SetWriteDeadline(time.Now().Add(sendTimeout)) // a recorder of tests has none
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	c.W.WriteHeader(status)
	if _, err := c.W.Write(body); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}
