package wire

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

var (
	errUTF8   = errors.New("text is not valid UTF-8")
	errNumber = errors.New("field number is out of range")
)

// reader walks over the fields of an encoded message:
//
//	r := reader{rest: b}
//	for r.next() {
//		switch r.num { ... r.text() ... }
//	}
//	if r.err != nil { ... }
//
// The methods that return the value of the current field return zero if it is not of their type, which ends the walk with
// an error. Fields that nobody asks for are skipped. If a field occurs again, the last occurrence is the one that counts,
// for whoever assigns what he reads. Nothing is copied.
type reader struct {
	rest []byte
	num  protowire.Number
	err  error // with the path of field numbers to where it is

	typ    protowire.Type
	varint uint64 // the value, if typ is VarintType
	raw    []byte // the value, if typ is BytesType
}

// next goes to the next field and tells whether there is one.
func (r *reader) next() bool {
	if r.err != nil || len(r.rest) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(r.rest)
	if n < 0 {
		r.err = protowire.ParseError(n)
		return false
	}
	if num > protowire.MaxValidNumber {
		r.err = errNumber
		return false
	}
	r.num, r.typ, r.rest = num, typ, r.rest[n:]
	switch typ {
	case protowire.VarintType:
		r.varint, n = protowire.ConsumeVarint(r.rest)
	case protowire.BytesType:
		r.raw, n = protowire.ConsumeBytes(r.rest)
	default:
		n = protowire.ConsumeFieldValue(num, typ, r.rest)
	}
	if n < 0 {
		r.fail(protowire.ParseError(n))
		return false
	}
	r.rest = r.rest[n:]
	return true
}

// fail ends the walk with an error at the current field.
func (r *reader) fail(err error) { r.err = fmt.Errorf("field %d: %w", r.num, err) }

// is tells whether the current field is of wire type want.
func (r *reader) is(want protowire.Type) bool {
	if r.typ != want {
		r.fail(fmt.Errorf("wire type is %d instead of %d", r.typ, want))
		return false
	}
	return true
}

// bytes is a part of the input with no capacity to spare, nil if empty.
func (r *reader) bytes() []byte {
	if !r.is(protowire.BytesType) || len(r.raw) == 0 {
		return nil
	}
	return r.raw[:len(r.raw):len(r.raw)]
}

// text is a part of the input that is valid UTF-8.
func (r *reader) text() []byte {
	if !r.is(protowire.BytesType) {
		return nil
	}
	if !utf8.Valid(r.raw) {
		r.fail(errUTF8)
		return nil
	}
	return r.raw
}

func (r *reader) int64() int64 {
	if !r.is(protowire.VarintType) {
		return 0
	}
	return int64(r.varint) // The sign is carried by the upper bits.
}

// int32 drops the upper bits, as all decoders of protobuf do.
func (r *reader) int32() int { return int(int32(r.int64())) }

func (r *reader) bool() bool { return r.int64() != 0 }

// textEntry is an entry of a map<string,string>.
func (r *reader) textEntry() (key, value []byte) {
	e := reader{rest: r.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			key = e.text()
		case 2:
			value = e.text()
		}
	}
	r.end(&e)
	return key, value
}

// int32Entry is an entry of a map<string,int32>.
func (r *reader) int32Entry() (key []byte, value int) {
	e := reader{rest: r.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			key = e.text()
		case 2:
			value = e.int32()
		}
	}
	r.end(&e)
	return key, value
}

// end takes over the error of e, which has walked over the message in the current field.
func (r *reader) end(e *reader) {
	if e.err != nil {
		r.fail(e.err)
	}
}

// timestamp is a google.protobuf.Timestamp.
type timestamp struct {
	present bool
	seconds int64
	nanos   int
}

// merge adds the current field to t. Occurrences of an embedded message add up: each has the last word on the fields that
// it has.
func (r *reader) merge(t *timestamp) {
	if !r.is(protowire.BytesType) {
		return
	}
	t.present = true
	e := reader{rest: r.raw}
	for e.next() {
		switch e.num {
		case 1:
			t.seconds = e.int64()
		case 2:
			t.nanos = e.int32()
		}
	}
	r.end(&e)
}

// time is t in UTC, and the zero time if there was none. Nanoseconds outside of a second are carried over.
func (t timestamp) time() time.Time {
	if !t.present {
		return time.Time{}
	}
	return time.Unix(t.seconds, int64(t.nanos)).UTC()
}
