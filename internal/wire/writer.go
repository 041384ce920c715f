package wire

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// writer encodes a message in two passes over its list of fields: the first checks the values and adds up their size, the
// second, after begin, writes them into a buffer of that size. One list serves both, so that they cannot disagree.
//
// As proto3 wants it, a zero value is not written. Maps are in the order of their keys: the same message is always the same
// bytes.
type writer struct {
	writing bool
	size    int    // of all fields, once the first pass is over
	b       []byte // only while writing
	err     error  // the first one found; the second pass cannot fail
}

// message is what encode needs of a message. TaskMessage does without it: through an interface the writer would be on the
// heap.
type message interface{ write(w *writer) }

func encode(name string, m message) ([]byte, error) {
	var w writer
	m.write(&w)
	if w.err != nil {
		return nil, fmt.Errorf("wire: encode %s: %w", name, w.err)
	}
	w.begin(nil)
	m.write(&w)
	return w.b, nil
}

// begin starts the second pass, which writes to the end of b.
func (w *writer) begin(b []byte) {
	if b == nil {
		w.b = make([]byte, 0, w.size)
	} else {
		w.b = slices.Grow(b, w.size)
	}
	w.writing = true
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) checkText(name, v string) {
	if !utf8.ValidString(v) {
		w.fail(fmt.Errorf("%s is not valid UTF-8: %q", name, v))
	}
}

func (w *writer) checkInt32(name string, v int) {
	if int(int32(v)) != v { // The loss is what it looks for.
		w.fail(fmt.Errorf("%s is outside of int32: %d", name, v))
	}
}

func (w *writer) text(num protowire.Number, name, v string) {
	if v != "" {
		w.element(num, name, v)
	}
}

// list writes repeated texts, in which an empty one counts.
func (w *writer) list(num protowire.Number, name string, vs []string) {
	for _, v := range vs {
		w.element(num, name, v)
	}
}

func (w *writer) element(num protowire.Number, name, v string) {
	if !w.writing {
		w.checkText(name, v)
		w.size += protowire.SizeTag(num) + protowire.SizeBytes(len(v))
		return
	}
	w.b = protowire.AppendTag(w.b, num, protowire.BytesType)
	w.b = protowire.AppendString(w.b, v)
}

func (w *writer) bytes(num protowire.Number, v []byte) {
	switch {
	case len(v) == 0:
	case !w.writing:
		w.size += protowire.SizeTag(num) + protowire.SizeBytes(len(v))
	default:
		w.b = protowire.AppendTag(w.b, num, protowire.BytesType)
		w.b = protowire.AppendBytes(w.b, v)
	}
}

// int32 costs ten bytes for a negative number, as protobuf wants it: it extends the sign to 64 bits.
func (w *writer) int32(num protowire.Number, name string, v int) {
	if !w.writing {
		w.checkInt32(name, v)
	}
	w.int64(num, int64(v))
}

func (w *writer) int64(num protowire.Number, v int64) {
	switch {
	case v == 0:
	case !w.writing:
		w.size += protowire.SizeTag(num) + sizeInt(v)
	default:
		w.b = protowire.AppendTag(w.b, num, protowire.VarintType)
		w.b = appendInt(w.b, v)
	}
}

func (w *writer) bool(num protowire.Number, v bool) {
	w.int64(num, int64(protowire.EncodeBool(v)))
}

// time writes a Timestamp, for the zero time too: it is that of year 1, which existing processes expect to be there.
func (w *writer) time(num protowire.Number, t time.Time) {
	seconds, nanos := t.Unix(), int64(t.Nanosecond())
	size := 0
	if seconds != 0 {
		size += protowire.SizeTag(1) + sizeInt(seconds)
	}
	if nanos != 0 {
		size += protowire.SizeTag(2) + sizeInt(nanos)
	}
	if !w.writing {
		w.size += protowire.SizeTag(num) + protowire.SizeBytes(size)
		return
	}
	w.embed(num, size)
	w.int64(1, seconds)
	w.int64(2, nanos)
}

// texts writes a map<string,string>. The keys of up to eight entries are sorted on the stack.
func (w *writer) texts(num protowire.Number, name string, m map[string]string) {
	if !w.writing {
		for k, v := range m {
			w.checkText(name, k)
			w.checkText(name, v)
			w.size += protowire.SizeTag(num) + protowire.SizeBytes(sizeTextEntry(k, v))
		}
		return
	}
	var few [8]string
	for _, k := range appendSortedKeys(few[:0], m) {
		v := m[k]
		w.embed(num, sizeTextEntry(k, v))
		w.element(1, name, k)
		w.element(2, name, v)
	}
}

// int32s writes a map<string,int32>.
func (w *writer) int32s(num protowire.Number, name string, m map[string]int) {
	if !w.writing {
		for k, v := range m {
			w.checkText(name, k)
			w.checkInt32(name, v)
			w.size += protowire.SizeTag(num) + protowire.SizeBytes(sizeInt32Entry(k, v))
		}
		return
	}
	for _, k := range appendSortedKeys(nil, m) {
		v := m[k]
		w.embed(num, sizeInt32Entry(k, v))
		w.element(1, name, k)
		w.b = protowire.AppendTag(w.b, 2, protowire.VarintType)
		w.b = appendInt(w.b, int64(v))
	}
}

// embed starts an embedded message whose fields take size bytes.
func (w *writer) embed(num protowire.Number, size int) {
	w.b = protowire.AppendTag(w.b, num, protowire.BytesType)
	w.b = protowire.AppendVarint(w.b, uint64(size))
}

// An entry of a map is a message with the key as field 1 and the value as field 2. Both are written even where they are
// zero, as the standard encoders do.

func sizeTextEntry(k, v string) int {
	return protowire.SizeTag(1) + protowire.SizeBytes(len(k)) + protowire.SizeTag(2) + protowire.SizeBytes(len(v))
}

func sizeInt32Entry(k string, v int) int {
	return protowire.SizeTag(1) + protowire.SizeBytes(len(k)) + protowire.SizeTag(2) + sizeInt(int64(v))
}

func sizeInt(v int64) int {
	return protowire.SizeVarint(uint64(v)) // The sign is carried by the upper bits.
}

func appendInt(b []byte, v int64) []byte {
	return protowire.AppendVarint(b, uint64(v))
}

func appendSortedKeys[V any](keys []string, m map[string]V) []string {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
