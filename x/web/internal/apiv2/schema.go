package apiv2

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// schemas generates JSON schemas of Go types. Schemas of structs are stored by name, for
// references.
type schemas map[string]any

type object = map[string]any

// of returns the schema of a type.
func (s schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{} // anything
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": s.nullable(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		name := schemaName(t)
		if s[name] == nil {
			s[name] = object{} // prevents infinite recursion
			s[name] = s.object(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	default:
		panic("no schema for " + t.String())
	}
}

// schemaName returns the name of a type, without the package of its type parameter.
func schemaName(t reflect.Type) string {
	name, arg, generic := strings.Cut(t.Name(), "[")
	if !generic {
		return name
	}
	return strings.TrimSuffix(arg[strings.LastIndexByte(arg, '.')+1:], "]") + "s"
}

// nullable returns the schema of an element or a field, which may be null if it is a pointer to a
// simple value.
func (s schemas) nullable(t reflect.Type) object {
	if t.Kind() == reflect.Pointer && t.Elem().Kind() != reflect.Struct {
		inner := s.of(t.Elem())
		return object{"type": []string{inner["type"].(string), "null"}}
	}
	return s.of(t)
}

func (s schemas) object(t reflect.Type) object {
	properties, required := object{}, []string{}
	s.fields(t, properties, &required)
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func (s schemas) fields(t reflect.Type, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			s.fields(f.Type, properties, required)
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || !f.IsExported() {
			continue
		}
		schema := s.of(f.Type)
		if opts != "omitempty" {
			*required = append(*required, name)
			if f.Type.Kind() == reflect.Pointer {
				schema = orNull(schema)
			}
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			schema["description"] = doc
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			schema["enum"] = strings.Split(enum, ",")
		}
		properties[name] = schema
	}
}

func orNull(schema object) object {
	if kind, ok := schema["type"].(string); ok {
		schema["type"] = []string{kind, "null"}
		return schema
	}
	return object{"anyOf": []object{schema, {"type": "null"}}}
}
