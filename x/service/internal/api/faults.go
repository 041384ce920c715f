package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// maxFaults bounds what one answer tells of a body: each entry of a long list may be wrong.
const maxFaults = 20

// finder looks for all values in a body that a type has no room for. The decoder names only the first, without the entry of a list or
// map that it is in, and with the names of embedded types in between.
type finder struct{ found []Wrong }

func (f *finder) add(pointer, detail string) {
	same := func(w Wrong) bool { return w.Pointer == pointer }
	if len(f.found) < maxFaults && !slices.ContainsFunc(f.found, same) {
		f.found = append(f.found, Wrong{pointer, detail})
	}
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// look compares JSON, which is known to be correct as such, with a type. null is as good as nothing, as the decoder has it.
func (f *finder) look(text []byte, pointer string, t reflect.Type) {
	if string(text) == "null" || len(f.found) == maxFaults {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case reflect.PointerTo(t).Implements(unmarshaler):
		f.lookAtValue(text, pointer, t)
	case t.Kind() == reflect.Struct:
		members := f.object(text, pointer)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if field := fieldOf(t, name); field != nil {
				f.look(members[name], pointer+"/"+escapePointer(name), field)
			} else {
				f.add(pointer+"/"+escapePointer(name), "there is no such field")
			}
		}
	case t.Kind() == reflect.Map:
		members := f.object(text, pointer)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			f.look(members[name], pointer+"/"+escapePointer(name), t.Elem())
		}
	case t.Kind() == reflect.Slice:
		var entries []json.RawMessage
		if json.Unmarshal(text, &entries) != nil {
			f.add(pointer, "this must be a list")
		}
		for i, entry := range entries {
			f.look(entry, pointer+"/"+strconv.Itoa(i), t.Elem())
		}
	default:
		f.lookAtValue(text, pointer, t)
	}
}

func (f *finder) lookAtValue(text []byte, pointer string, t reflect.Type) {
	if json.Unmarshal(text, reflect.New(t).Interface()) != nil {
		f.add(pointer, expected(t))
	}
}

func (f *finder) object(text []byte, pointer string) (members map[string]json.RawMessage) {
	if json.Unmarshal(text, &members) != nil {
		f.add(pointer, "this must be an object")
	}
	return members
}

// fieldOf is the type of the field with a name; nil if there is none.
func fieldOf(t reflect.Type, name string) reflect.Type {
	for _, field := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag != "" && tag == name {
			return field.Type
		}
	}
	return nil
}

// expected says what should be there.
func expected(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		return `this must be a duration such as "30s" or "1h30m", and not less than zero`
	case t == reflect.TypeFor[Time]():
		return `this must be a time such as "2026-01-02T15:04:05Z"`
	case t.Kind() == reflect.String:
		return "this must be a text"
	case t.Kind() == reflect.Bool:
		return "this must be true or false"
	case t.Kind() == reflect.Int:
		return "this must be a whole number, and one that 64 bits hold"
	}
	return "this is of the wrong type"
}
