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

	"github.com/asynq-go/asynq"
)

// call is one request on its way through a route.
type call struct {
	api    *api
	w      http.ResponseWriter
	r      *http.Request
	route  *route
	values map[string]string // of the path
	query  url.Values
	status int // of the answer; 0: 200, or 204 without one
}

func (c *call) queue() string { return c.values["queue"] }
func (c *call) id() string    { return c.values["id"] }

// inspect is the inspector, whose calls end with the request.
func (c *call) inspect() *asynq.Inspector { return c.api.Inspector.WithContext(c.r.Context()) }

// parseQuery checks the parameters against those of the route.
func (c *call) parseQuery() error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return problemf(http.StatusBadRequest, kindInvalid, "the query cannot be read: %v", err)
	}
	c.query = query
	var wrong []Wrong
	for name, given := range query {
		i := slices.IndexFunc(c.route.params, func(p param) bool { return p.name == name })
		if i < 0 {
			wrong = append(wrong, Wrong{Parameter: name, Detail: "there is no such parameter" + c.route.paramNames()})
			continue
		}
		p := &c.route.params[i]
		if len(given) > 1 && !p.list {
			wrong = append(wrong, Wrong{Parameter: name, Detail: "give it once"})
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
		return ", and no other"
	}
	names := make([]string, len(r.params))
	for i, p := range r.params {
		names[i] = p.name
	}
	return ": use " + strings.Join(names, ", ")
}

// wrong says what is wrong with a value; "" if nothing.
func (p *param) wrong(v string) string {
	switch p.kind {
	case "integer":
		if n, err := strconv.Atoi(v); err != nil || n < p.min || n > p.max {
			return "it must be a whole number from " + strconv.Itoa(p.min) + " to " + strconv.Itoa(p.max)
		}
	case "boolean":
		if v != "true" && v != "false" {
			return "it must be true or false"
		}
	}
	if len(p.enum) > 0 && !slices.Contains(p.enum, v) {
		return "it must be one of " + strings.Join(p.enum, ", ")
	}
	return ""
}

func (c *call) param(name string) *param {
	i := slices.IndexFunc(c.route.params, func(p param) bool { return p.name == name })
	return &c.route.params[i] // a route that asks for a parameter that it has not is a bug, which any test of it meets
}

func (c *call) has(name string) bool { return c.query.Get(name) != "" }

// str, num and flag are the value of a parameter, or its default.
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

// strs are the values of a parameter. Those of a fixed set may be separated by commas; names may hold commas themselves.
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

// read decodes the body. All that is in it must have a meaning.
func (c *call) read(into any) error {
	body, err := io.ReadAll(c.r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problemf(http.StatusRequestEntityTooLarge, "", "the body is larger than the %d bytes that this server takes", large.Limit)
	case err != nil:
		return problemf(http.StatusBadRequest, "", "the body cannot be read: %v", err)
	case len(body) == 0 && c.route.opt:
		return nil
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return problemf(http.StatusUnsupportedMediaType, "", "send the body as application/json (header Content-Type)")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	err = d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return problemf(http.StatusBadRequest, kindInvalid, "there is something behind the JSON value of the body")
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
		return problemf(http.StatusBadRequest, kindInvalid, "the body is not JSON: %v, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return problemf(http.StatusBadRequest, kindInvalid, "the body is not JSON: it is empty, or ends too early")
	case errors.As(err, &kind):
		return unprocessable(pointerOf(kind.Field), "it cannot be a %s", kind.Value)
	}
	return unprocessable("", "%v", err)
}

// pointerOf is a field as encoding/json names it, without the structs that are embedded: their names begin with a capital letter.
func pointerOf(field string) string {
	pointer := ""
	for name := range strings.SplitSeq(field, ".") {
		if name != "" && (name[0] < 'A' || name[0] > 'Z') {
			pointer += "/" + name
		}
	}
	return pointer
}
