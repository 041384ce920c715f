package wire

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

var (
	errUTF8   = errors.New("text is not valid UTF-8")
	errNumber = errors.New("field number is out of range")
)

// reader iterates over the fields of an encoded message:
//
//	r := reader{rest: b}
//	for r.next() {
//		switch r.num { ... r.text() ... }
//	}
//	if r.err != nil { ... }
//
// A method that returns the value of the current field returns zero, and ends the iteration with an
// error, if the field has another type. Fields that are not read are skipped. The last value of a
// repeated field counts, because it is assigned last. Nothing is copied.
type reader struct {
	rest []byte
	num  protowire.Number
	err  error // with the path of field numbers to its place

	typ    protowire.Type
	varint uint64 // the value, if typ is VarintType
	raw    []byte // the value, if typ is BytesType
}

// next advances to the next field and reports whether there is one.
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

// fail ends the iteration with an error at the current field.
func (r *reader) fail(err error) { r.err = fmt.Errorf("field %d: %w", r.num, err) }

// is reports whether the current field has the wire type want. If not, it fails.
func (r *reader) is(want protowire.Type) bool {
	if r.typ != want {
		r.fail(fmt.Errorf("wire type is %d instead of %d", r.typ, want))
		return false
	}
	return true
}

// bytes returns a part of the input with no spare capacity, or nil if it is empty.
func (r *reader) bytes() []byte {
	if !r.is(protowire.BytesType) || len(r.raw) == 0 {
		return nil
	}
	return r.raw[:len(r.raw):len(r.raw)]
}

// text returns a part of the input that is valid UTF-8.
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
	return int64(r.varint) // the sign is in the upper bits
}

// int32 drops the upper bits, like all protobuf decoders.
func (r *reader) int32() int { return int(int32(r.int64())) }

// message reads an embedded message, which is or contains the current field. It calls f for each of
// its fields.
func (r *reader) message(b []byte, f func(e *reader)) {
	e := reader{rest: b}
	for e.next() {
		f(&e)
	}
	if e.err != nil {
		r.fail(e.err)
	}
}

// textEntry returns an entry of a map<string,string>.
func (r *reader) textEntry() (key, value []byte) {
	e := reader{rest: r.bytes()} // without a closure, which would allocate
	for e.next() {
		switch e.num {
		case 1:
			key = e.text()
		case 2:
			value = e.text()
		}
	}
	if e.err != nil {
		r.fail(e.err)
	}
	return key, value
}
