package api

import (
	"bytes"
	"compress/gzip"
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

// Call is an authenticated request.
type Call struct {
	W     http.ResponseWriter
	R     *http.Request
	Who   *auth.Holder
	Rules *Rules
	Scope auth.Scope          // required by the operation; Who has it
	Find  func() *auth.Holder // returns the current holder of the secret; nil if it has been removed
}

// Handler answers a call, or returns an error, which ProblemOf converts.
type Handler func(c *Call) error

// Route is an operation.
type Route struct {
	Pattern string // as for http.ServeMux
	Scope   auth.Scope
	Handler Handler
}

// Queue returns the queue in the path, if the caller has access to it.
func (c *Call) Queue() (string, error) {
	queue := c.R.PathValue("queue")
	return queue, c.Admit(queue)
}

// Admit returns an error if the caller must not use the queue.
func (c *Call) Admit(queue string) error {
	if !c.Who.HasAccess(queue) {
		return Problemf(http.StatusForbidden, KindForbidden, "the token %q has no access to the queue %q", c.Who.Name, queue)
	}
	if err := CheckQueueName(queue); err != nil {
		return invalidf("", "%v", err)
	}
	if !c.Rules.Known(queue) {
		return Problemf(http.StatusNotFound, KindQueue, "the configuration has no queue %q", queue)
	}
	return nil
}

// Recheck returns an error if the caller has lost its access while it waited: a reload may have
// removed its token.
func (c *Call) Recheck(queues ...string) error {
	who := c.Find()
	switch {
	case who == nil:
		return UnknownToken()
	case !who.May(c.Scope):
		return MissingScope(who, c.Scope)
	}
	c.Who = who
	for _, queue := range queues {
		if err := c.Admit(queue); err != nil {
			return err
		}
	}
	return nil
}

// UnknownToken returns the problem of an unknown secret.
func UnknownToken() *Problem {
	return Problemf(http.StatusUnauthorized, KindUnauthorized, "unknown token")
}

// MissingScope returns the problem of a token without a scope.
func MissingScope(who *auth.Holder, scope auth.Scope) *Problem {
	return Problemf(http.StatusForbidden, KindForbidden, "the token %q lacks the scope %q", who.Name, scope)
}

// Body reads the body and decompresses it. The service has set a read deadline.
func (c *Call) Body() ([]byte, error) {
	zipped, p := c.zipped()
	if p != nil {
		return nil, p
	}
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
		return nil, c.tooLong("the body")
	case err != nil:
		return nil, invalidf("", "the body is incomplete or was sent too slowly")
	case zipped && buf.Len() > 0:
		return c.unzip(&buf)
	}
	return buf.Bytes(), nil
}

// zipped reports whether the body is compressed with gzip. It rejects other encodings.
func (c *Call) zipped() (bool, *Problem) {
	switch encoding := strings.ToLower(strings.TrimSpace(strings.Join(c.R.Header.Values("Content-Encoding"), ", "))); encoding {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		return true, nil
	default:
		c.W.Header().Set("Accept-Encoding", "gzip")
		return false, Problemf(http.StatusUnsupportedMediaType, KindEncoding, "the content encoding %.100q is not supported: use gzip or none", encoding)
	}
}

// unzip decompresses a body. The limit applies to the decompressed size.
func (c *Call) unzip(body io.Reader) ([]byte, error) {
	reader, err := gzip.NewReader(body)
	if err != nil {
		return nil, invalidf("", "the body is not gzip, as its Content-Encoding says")
	}
	var buf bytes.Buffer
	n, err := buf.ReadFrom(io.LimitReader(reader, c.Rules.MaxBody+1))
	switch {
	case err != nil:
		return nil, invalidf("", "the body is not gzip, as its Content-Encoding says, or is incomplete")
	case n > c.Rules.MaxBody:
		return nil, c.tooLong("the decompressed body")
	}
	return buf.Bytes(), nil
}

func (c *Call) tooLong(what string) *Problem {
	return Problemf(http.StatusRequestEntityTooLarge, KindTooLarge, "%s is longer than the limit of %d bytes: send less at a time", what, c.Rules.MaxBody)
}

// Decode decodes the body into a struct. An empty body is an error.
func (c *Call) Decode(into any) error { return c.decode(into, false) }

// DecodeOptional is like Decode, but treats an empty body as {}.
func (c *Call) DecodeOptional(into any) error { return c.decode(into, true) }

func (c *Call) decode(into any, optional bool) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		if !optional {
			return invalidf("", "the body is empty: send a JSON object")
		}
		body = []byte("{}")
	}
	if !utf8.Valid(body) {
		return invalidf("", "the body is not UTF-8: send other bytes as payload_base64 or result_base64")
	}
	if p := Unmarshal(body, "", into); p != nil {
		return p
	}
	return nil
}

// Unmarshal decodes JSON into a struct and rejects unknown fields. Pointer is the position of the
// JSON in the body.
func Unmarshal(body []byte, pointer string, into any) *Problem {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return invalidf(pointer, "unexpected data after the JSON value")
		}
		if isStrict(body, reflect.TypeOf(into)) {
			return nil
		}
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return invalidf(pointer, "the body is not JSON: %v, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return invalidf(pointer, "the body is not JSON: it is incomplete")
	}
	var value json.RawMessage // without trailing data
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&value); err != nil {
		return invalidf(pointer, "the body is not JSON")
	}
	var f finder
	f.check(value, pointer, reflect.TypeOf(into))
	(&strict{text: value, found: &f}).value(shapeOf(reflect.TypeOf(into)), pointer)
	return Invalid(f.found...)
}

// escapePointer escapes a name for a JSON pointer.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// Wait parses a wait parameter and limits it as Shorten does. An empty text is zero.
func (c *Call) Wait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := parseDuration(text)
	if err != nil {
		return 0, err
	}
	return c.Shorten(wait), nil
}

// WaitHeader is the response header that reports the wait that applied, if it was shortened to
// Rules.MaxWait.
const WaitHeader = "Asynq-Wait"

// Shorten limits a wait to Rules.MaxWait. If it does, it sets WaitHeader.
func (c *Call) Shorten(wait time.Duration) time.Duration {
	if wait <= c.Rules.MaxWait {
		return wait
	}
	c.W.Header().Set(WaitHeader, c.Rules.MaxWait.String())
	return c.Rules.MaxWait
}

// sendTimeout is how long a client may take to read a response.
const sendTimeout = 30 * time.Second

// ErrClientGone means that the client disconnected before it received the whole response.
var ErrClientGone = errors.New("the client has disconnected")

// Send writes a JSON response. The only error is ErrClientGone.
func (c *Call) Send(status int, body []byte) error {
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	// Clear the deadline after the response: the connection is reused by requests that may have to
	// wait.
	control := http.NewResponseController(c.W)
	_ = control.SetWriteDeadline(time.Now().Add(sendTimeout)) // httptest.ResponseRecorder does not support it
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
