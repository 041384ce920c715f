package wire

import (
	"bytes"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// codec passes over the list of fields of a message, to write all of them, or to read one. Either w
// or r is set.
type codec struct {
	w     *writer
	r     *reader
	times map[protowire.Number][]byte // Timestamps read
}

func encode(name string, fields func(*codec)) ([]byte, error) {
	var w writer
	fields(&codec{w: &w})
	if w.err != nil {
		return nil, fmt.Errorf("wire: encode %s: %w", name, w.err)
	}
	return w.b, nil
}

func decode[M any, P interface {
	*M
	fields(c *codec)
}](name string, b []byte) (*M, error) {
	m, r := new(M), reader{rest: b}
	c := codec{r: &r, times: make(map[protowire.Number][]byte)}
	for r.next() {
		P(m).fields(&c)
	}
	if r.err != nil {
		return nil, fmt.Errorf("wire: decode %s: %w", name, r.err)
	}
	return m, nil
}

// field writes a field with write. When reading, it calls read if the current field is the field.
func (c *codec) field(num protowire.Number, write func(w *writer), read func(r *reader)) {
	switch {
	case c.w != nil:
		write(c.w)
	case c.r.num == num:
		read(c.r)
	}
}

func (c *codec) text(num protowire.Number, name string, v *string) {
	c.field(num, func(w *writer) { w.text(num, name, *v) }, func(r *reader) { *v = string(r.text()) })
}

// list is a repeated text.
func (c *codec) list(num protowire.Number, name string, v *[]string) {
	c.field(num, func(w *writer) {
		for _, text := range *v {
			w.element(num, name, text)
		}
	}, func(r *reader) { *v = append(*v, string(r.text())) })
}

func (c *codec) bytes(num protowire.Number, v *[]byte) {
	c.field(num, func(w *writer) { w.bytes(num, *v) }, func(r *reader) { *v = bytes.Clone(r.bytes()) })
}

func (c *codec) int32(num protowire.Number, name string, v *int) {
	c.field(num, func(w *writer) { w.int32(num, name, *v) }, func(r *reader) { *v = r.int32() })
}

func (c *codec) bool(num protowire.Number, v *bool) {
	c.field(num, func(w *writer) { w.int64(num, int64(protowire.EncodeBool(*v))) }, func(r *reader) { *v = r.int64() != 0 })
}

// int32s is a map<string,int32>. Both key and value of an entry are written even if they are zero,
// like the standard encoders do.
func (c *codec) int32s(num protowire.Number, name string, v *map[string]int) {
	c.field(num, func(w *writer) {
		for _, key := range appendSortedKeys(nil, *v) {
			var e writer
			e.element(1, name, key)
			e.checkInt32(name, (*v)[key])
			e.b = protowire.AppendTag(e.b, 2, protowire.VarintType)
			e.b = protowire.AppendVarint(e.b, uint64((*v)[key]))
			w.embed(num, &e)
		}
	}, func(r *reader) {
		key, value := "", 0
		r.message(r.bytes(), func(e *reader) {
			switch e.num {
			case 1:
				key = string(e.text())
			case 2:
				value = e.int32()
			}
		})
		if *v == nil {
			*v = make(map[string]int)
		}
		(*v)[key] = value
	})
}

// time is a google.protobuf.Timestamp. It is also written for the zero time: its value is that of
// year 1, and existing processes expect the field. A time that is read is in UTC, and zero if it is
// absent. Nanoseconds outside of a second are carried over.
func (c *codec) time(num protowire.Number, v *time.Time) {
	c.field(num, func(w *writer) {
		var e writer
		e.int64(1, v.Unix())
		e.int64(2, int64(v.Nanosecond()))
		w.embed(num, &e)
	}, func(r *reader) {
		c.times[num] = append(c.times[num], r.bytes()...) // a repeated message is merged, as if it were one
		var seconds, nanos int64
		r.message(c.times[num], func(e *reader) {
			switch e.num {
			case 1:
				seconds = e.int64()
			case 2:
				nanos = int64(e.int32())
			}
		})
		*v = time.Unix(seconds, nanos).UTC()
	})
}
