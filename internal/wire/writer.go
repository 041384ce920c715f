package wire

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// writer appends the fields of a message. As in proto3, zero values are not written. Map entries
// are sorted by key, so that equal messages have equal encodings.
type writer struct {
	b   []byte
	err error // the first error
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) checkInt32(name string, v int) {
	if int(int32(v)) != v { // loses bits on purpose
		w.fail(fmt.Errorf("%s is outside of int32: %d", name, v))
	}
}

func (w *writer) text(num protowire.Number, name, v string) {
	if v != "" {
		w.element(num, name, v)
	}
}

// element writes a text even if it is empty.
func (w *writer) element(num protowire.Number, name, v string) {
	if !utf8.ValidString(v) {
		w.fail(fmt.Errorf("%s is not valid UTF-8: %q", name, v))
	}
	w.b = protowire.AppendTag(w.b, num, protowire.BytesType)
	w.b = protowire.AppendString(w.b, v)
}

func (w *writer) bytes(num protowire.Number, v []byte) {
	if len(v) > 0 {
		w.b = protowire.AppendTag(w.b, num, protowire.BytesType)
		w.b = protowire.AppendBytes(w.b, v)
	}
}

// int32 takes ten bytes for a negative number, as in protobuf: the sign is extended to 64 bits.
func (w *writer) int32(num protowire.Number, name string, v int) {
	w.checkInt32(name, v)
	w.int64(num, int64(v))
}

func (w *writer) int64(num protowire.Number, v int64) {
	if v != 0 {
		w.b = protowire.AppendTag(w.b, num, protowire.VarintType)
		w.b = protowire.AppendVarint(w.b, uint64(v)) // the sign is in the upper bits
	}
}

// texts writes a map<string,string>: a message for each entry, with the key as field 1 and the
// value as field 2, both even if they are empty. It sorts the keys of up to eight entries on the
// stack.
func (w *writer) texts(num protowire.Number, name string, m map[string]string) {
	var few [8]string
	for _, k := range appendSortedKeys(few[:0], m) {
		v := m[k]
		w.b = protowire.AppendTag(w.b, num, protowire.BytesType)
		w.b = protowire.AppendVarint(w.b, uint64(2*protowire.SizeTag(1)+protowire.SizeBytes(len(k))+protowire.SizeBytes(len(v))))
		w.element(1, name, k)
		w.element(2, name, v)
	}
}

// embed writes the message that e has written, and takes over its error.
func (w *writer) embed(num protowire.Number, e *writer) {
	w.b = protowire.AppendTag(w.b, num, protowire.BytesType)
	w.b = protowire.AppendBytes(w.b, e.b)
	if e.err != nil {
		w.fail(e.err)
	}
}

func appendSortedKeys[V any](keys []string, m map[string]V) []string {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
