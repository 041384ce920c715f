package script

import (
	"errors"
	"fmt"
)

// Reader reads the values of a reply in order. It remembers the first error: that of the call, an
// error in the reply, or that the next value is missing or has another type than the one requested.
// After an error, all methods return zero values. So callers read all values and then check Err
// once:
//
//	r := call.Read()
//	now, more := r.Int(), r.Bool()
//	for r.More() {
//		tasks = append(tasks, task{id: r.Text(), message: r.Bytes()})
//	}
//	if err := r.Err(); err != nil {
//
// Only Bytes allocates, and errors. Values that are left at the end are ignored.
type Reader struct {
	call   *Call
	values []any
	left   int  // values not read
	same   Code // if values is empty: each of them
	err    error
}

// errUnexpected is the error of a value that is missing or has another type.
var errUnexpected = errors.New("unexpected reply")

// Read returns a reader of the reply: of its elements if it is a list, else of a single value.
func (c *Call) Read() Reader {
	list, ok := c.Reply.([]any)
	if !ok {
		c.single[0] = c.Reply
		list = c.single[:]
	}
	return Reader{call: c, values: list, left: len(list), err: c.Err}
}

// ReadCodes returns a reader of one code for each of n tasks. A reply of CodeOK or CodeFirst alone
// is the code of all tasks. If Err is nil before the first code is read, it remains nil for n
// codes.
func (c *Call) ReadCodes(n int) Reader {
	r := c.Read()
	if reply, ok := c.Reply.(int64); ok && (Code(reply) == CodeOK || Code(reply) == CodeFirst) {
		r.values, r.left, r.same = nil, n, Code(reply)
		return r
	}
	if _, ok := c.Reply.([]any); !ok || r.left != n {
		r.Fail()
	}
	for _, v := range r.values {
		if _, ok := v.(int64); !ok {
			r.Fail()
		}
	}
	return r
}

// Err returns the first error. It names the script.
func (r *Reader) Err() error {
	switch {
	case r.err == nil:
		return nil
	case r.err == errUnexpected: //nolint:errorlint // compared by identity, never wrapped
		return fmt.Errorf("rdb: %s: %w %.200v", r.call.Script.Name, r.err, r.call.Reply)
	default:
		return fmt.Errorf("rdb: %s: %w", r.call.Script.Name, r.err)
	}
}

// Fail makes Err return that the reply is malformed, unless there is an error already. It is for
// values that a caller decodes further.
func (r *Reader) Fail() {
	if r.err == nil {
		r.err = errUnexpected
	}
}

// Len returns the number of values left, 0 after an error.
func (r *Reader) Len() int {
	if r.err != nil {
		return 0
	}
	return r.left
}

// More reports whether there are values left. It is false after an error.
func (r *Reader) More() bool { return r.Len() > 0 }

// Value reads a value of any type. Other methods are preferable.
func (r *Reader) Value() any {
	if r.Len() == 0 || len(r.values) == 0 {
		r.Fail()
		return nil
	}
	v := r.values[len(r.values)-r.left]
	r.left--
	if err, ok := v.(error); ok {
		r.err = err
		return nil
	}
	return v
}

// Int reads an integer.
func (r *Reader) Int() int64 {
	n, ok := r.Value().(int64)
	if !ok {
		r.Fail()
	}
	return n
}

// Bool reads an integer that is 1 for true.
func (r *Reader) Bool() bool { return r.Int() == 1 }

// Code reads a code. After an error it returns CodeUnknown.
func (r *Reader) Code() Code {
	if len(r.values) == 0 && r.More() {
		r.left--
		return r.same
	}
	n := r.Int()
	if r.err != nil {
		return CodeUnknown
	}
	return Code(n)
}

// Text reads a string. It returns "" for nil.
func (r *Reader) Text() string {
	switch v := r.Value().(type) {
	case string:
		return v
	case nil:
	default:
		r.Fail()
	}
	return ""
}

// Bytes reads a string as bytes. It returns nil for nil.
func (r *Reader) Bytes() []byte {
	switch v := r.Value().(type) {
	case string:
		return []byte(v)
	case nil:
	default:
		r.Fail()
	}
	return nil
}

// List reads a list, and returns a reader of its elements. That reader has an error of its own: an
// error in its elements is not one of r.
func (r *Reader) List() Reader {
	list, ok := r.Value().([]any)
	if !ok {
		r.Fail()
	}
	return Reader{call: r.call, values: list, left: len(list), err: r.err}
}
