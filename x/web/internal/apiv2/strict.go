package apiv2

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// strict rejects bodies that encoding/json accepts: with unknown fields, with field names that
// differ in case, and with duplicate names, of which the last would count. The body was decoded
// into a value of type t. Raw values, such as a payload, may contain anything.
func strict(body string, t reflect.Type) error {
	return strictValue(json.NewDecoder(strings.NewReader(body)), t, "")
}

var rawJSON = reflect.TypeFor[json.RawMessage]()

func strictValue(d *json.Decoder, t reflect.Type, pointer string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := t.Kind()
	if t == rawJSON || kind != reflect.Struct && kind != reflect.Map && kind != reflect.Slice {
		return skip(d)
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			if err := strictValue(d, t.Elem(), pointer+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	case json.Delim('{'):
		return strictObject(d, t, pointer)
	default: // null, or a string, such as a time
		return nil
	}
}

func strictObject(d *json.Decoder, t reflect.Type, pointer string) error {
	fields := map[string]reflect.Type{}
	if t.Kind() == reflect.Struct {
		fieldsOf(t, fields)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		at := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		field, known := fields[name]
		switch {
		case t.Kind() == reflect.Map:
			field = t.Elem()
		case !known:
			return unprocessable(at, "unknown field %q", name)
		}
		if seen[name] {
			return unprocessable(at, "duplicate field")
		}
		seen[name] = true
		if err := strictValue(d, field, at); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// fieldsOf adds the fields of a struct by their JSON names, including those of embedded structs.
func fieldsOf(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name != "":
			into[name] = f.Type
		case f.Anonymous:
			fieldsOf(f.Type, into)
		}
	}
}

func skip(d *json.Decoder) error {
	var all json.RawMessage
	return d.Decode(&all)
}
