package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// maxFaults limits the errors in one response: every entry of a long list may be invalid.
const maxFaults = 20

// finder collects all values of a body that do not fit a type. encoding/json reports only the
// first, without its index or key, and includes the names of embedded types.
type finder struct{ found []FieldError }

func (f *finder) add(pointer, detail string) {
	same := func(w FieldError) bool { return w.Pointer == pointer }
	if len(f.found) < maxFaults && !slices.ContainsFunc(f.found, same) {
		f.found = append(f.found, FieldError{pointer, detail})
	}
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// check compares valid JSON with a type. It accepts null everywhere, as the decoder does.
func (f *finder) check(text []byte, pointer string, t reflect.Type) {
	if string(text) == "null" || len(f.found) == maxFaults {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case reflect.PointerTo(t).Implements(unmarshaler):
		f.checkValue(text, pointer, t)
	case t.Kind() == reflect.Struct:
		members := f.object(text, pointer)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if field := fieldOf(t, name); field != nil {
				f.check(members[name], pointer+"/"+escapePointer(name), field)
			} else {
				f.add(pointer+"/"+escapePointer(name), "unknown field")
			}
		}
	case t.Kind() == reflect.Map:
		members := f.object(text, pointer)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			f.check(members[name], pointer+"/"+escapePointer(name), t.Elem())
		}
	case t.Kind() == reflect.Slice:
		var entries []json.RawMessage
		if json.Unmarshal(text, &entries) != nil {
			f.add(pointer, "must be an array")
		}
		for i, entry := range entries {
			f.check(entry, pointer+"/"+strconv.Itoa(i), t.Elem())
		}
	default:
		f.checkValue(text, pointer, t)
	}
}

func (f *finder) checkValue(text []byte, pointer string, t reflect.Type) {
	if json.Unmarshal(text, reflect.New(t).Interface()) != nil {
		f.add(pointer, expected(t, text))
	}
}

func (f *finder) object(text []byte, pointer string) (members map[string]json.RawMessage) {
	if json.Unmarshal(text, &members) != nil {
		f.add(pointer, "must be an object")
	}
	return members
}

// fieldOf returns the type of the field with a JSON name; nil if there is none.
func fieldOf(t reflect.Type, name string) reflect.Type {
	for _, field := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag != "" && tag == name {
			return field.Type
		}
	}
	return nil
}

// expected describes the values that a type accepts.
func expected(t reflect.Type, text []byte) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		var s string
		_ = json.Unmarshal(text, &s) // stays empty, which is not a duration
		_, err := parseDuration(s)
		return err.Error()
	case t == reflect.TypeFor[Time]():
		return `must be a time such as "2026-01-02T15:04:05Z"`
	case t.Kind() == reflect.String:
		return "must be a string"
	case t.Kind() == reflect.Bool:
		return "must be true or false"
	case t.Kind() == reflect.Int:
		return "must be an integer of at most 64 bits"
	}
	return "has the wrong type"
}
