package apiv2

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// call is one request to a route.
type call struct {
	api    *api
	w      http.ResponseWriter
	r      *http.Request
	route  *route
	values map[string]string // in the path
	query  url.Values
	status int // of the response; 0: 200, or 204 without a body
}

func (c *call) queue() string { return c.values["queue"] }
func (c *call) id() string    { return c.values["id"] }

// inspect returns an inspector whose calls end with the request.
func (c *call) inspect() *asynq.Inspector { return c.api.Inspector.WithContext(c.r.Context()) }

// parseQuery checks the parameters against those of the route.
func (c *call) parseQuery() error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return problemf(http.StatusBadRequest, kindInvalid, "invalid query: %v", err)
	}
	c.query = query
	var wrong []Wrong
	for name, given := range query {
		i := slices.IndexFunc(c.route.params, func(p param) bool { return p.name == name })
		if i < 0 {
			wrong = append(wrong, Wrong{Parameter: name, Detail: "unknown parameter" + c.route.paramNames()})
			continue
		}
		p := &c.route.params[i]
		if len(given) > 1 && !p.list {
			wrong = append(wrong, Wrong{Parameter: name, Detail: "must not be repeated"})
		}
		for _, v := range c.strs(name) {
			if why := p.wrong(v); why != "" {
				wrong = append(wrong, Wrong{Parameter: name, Detail: why})
			}
		}
	}
	if len(wrong) > 0 {
		slices.SortFunc(wrong, func(a, b Wrong) int { return strings.Compare(a.Parameter, b.Parameter) })
		return invalid(http.StatusBadRequest, wrong...)
	}
	return nil
}

func (r *route) paramNames() string {
	if len(r.params) == 0 {
		return ": none are supported"
	}
	names := make([]string, len(r.params))
	for i, p := range r.params {
		names[i] = p.name
	}
	return ": use " + strings.Join(names, ", ")
}

// wrong returns why a value is invalid, or "".
func (p *param) wrong(v string) string {
	switch p.kind {
	case "integer":
		if n, err := strconv.Atoi(v); err != nil || n < p.min || n > p.max {
			return "must be a whole number from " + strconv.Itoa(p.min) + " to " + strconv.Itoa(p.max)
		}
	case "boolean":
		if v != "true" && v != "false" {
			return "must be true or false"
		}
	}
	if len(p.enum) > 0 && !slices.Contains(p.enum, v) {
		return "must be one of " + strings.Join(p.enum, ", ")
	}
	return ""
}

func (c *call) param(name string) *param {
	i := slices.IndexFunc(c.route.params, func(p param) bool { return p.name == name })
	return &c.route.params[i] // a missing parameter is a bug in the route, which any test of the route detects
}

func (c *call) has(name string) bool { return c.query.Get(name) != "" }

// str, num and flag return the value of a parameter, or its default.
func (c *call) str(name string) string {
	if v := c.query.Get(name); v != "" {
		return v
	}
	def, _ := c.param(name).def.(string)
	return def
}

func (c *call) num(name string) int {
	if n, err := strconv.Atoi(c.query.Get(name)); err == nil {
		return n
	}
	def, _ := c.param(name).def.(int)
	return def
}

func (c *call) flag(name string) bool { return c.str(name) == "true" }

// time returns the value of a parameter in RFC 3339, or the zero time.
func (c *call) time(name string) (time.Time, error) {
	if !c.has(name) {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, c.str(name))
	if err != nil {
		return at, badParam(name, "must be a time in RFC 3339, such as 2030-01-31T12:00:00Z")
	}
	return at, nil
}

// strs returns the values of a parameter. Values of a fixed set may be separated by commas. Names
// may contain commas, so they are not split.
func (c *call) strs(name string) []string {
	p := c.param(name)
	var all []string
	for _, v := range c.query[name] {
		if !p.list || len(p.enum) == 0 {
			all = append(all, v)
			continue
		}
		all = append(all, strings.Split(v, ",")...)
	}
	return slices.DeleteFunc(all, func(v string) bool { return v == "" })
}

// read decodes the body. It rejects everything that has no meaning.
func (c *call) read(into any) error {
	body, err := io.ReadAll(c.r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problemf(http.StatusRequestEntityTooLarge, "", "the request body exceeds the limit of %d bytes", large.Limit)
	case err != nil:
		return problemf(http.StatusBadRequest, "", "the request body could not be read: %v", err)
	case len(body) == 0 && c.route.opt:
		return nil
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return problemf(http.StatusUnsupportedMediaType, "", "the Content-Type must be application/json")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	err = d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return problemf(http.StatusBadRequest, kindInvalid, "unexpected data after the JSON value of the request body")
		}
		return strict(string(body), reflect.TypeOf(into))
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &syntax):
		return problemf(http.StatusBadRequest, kindInvalid, "the request body is not JSON: %v, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return problemf(http.StatusBadRequest, kindInvalid, "the request body is not JSON: it is empty or incomplete")
	case errors.As(err, &kind):
		return unprocessable(pointerOf(kind.Field), "must not be a %s", kind.Value)
	}
	return unprocessable("", "%v", err)
}

// pointerOf converts a field path of encoding/json to a JSON pointer. It skips embedded structs,
// whose names start with a capital letter.
func pointerOf(field string) string {
	pointer := ""
	for name := range strings.SplitSeq(field, ".") {
		if name != "" && (name[0] < 'A' || name[0] > 'Z') {
			pointer += "/" + name
		}
	}
	return pointer
}
