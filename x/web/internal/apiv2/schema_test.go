package apiv2

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// faults validates a value against a schema, with the features of schemas that the document uses.
func (s *site) faults(schema object, v any, at string) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, at+": "+fmt.Sprintf(format, args...)) }
	for keyword := range schema {
		if !slices.Contains([]string{
			"$ref", "type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "format", "description",
		}, keyword) {
			wrong("the checker does not know the keyword %s", keyword)
		}
	}
	if ref, ok := schema["$ref"].(string); ok {
		target := s.doc["components"].(object)["schemas"].(object)[strings.TrimPrefix(ref, "#/components/schemas/")].(object)
		faults = append(faults, s.faults(target, v, at)...)
	}
	if some, ok := schema["anyOf"].([]any); ok {
		fits := false
		for _, one := range some {
			fits = fits || len(s.faults(one.(object), v, at)) == 0
		}
		if !fits {
			wrong("%v fits none of %v", v, some)
			for _, one := range some {
				faults = append(faults, s.faults(one.(object), v, at)...)
			}
		}
	}
	if kind, ok := schema["type"]; ok && !ofType(kind, v) {
		wrong("%v is no %v", v, kind)
		return faults
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		wrong("%v is none of %v", v, enum)
	}
	switch v := v.(type) {
	case string:
		if schema["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339Nano, v); err != nil {
				wrong("%v", err)
			}
		}
	case []any:
		if items, ok := schema["items"].(object); ok {
			for i, item := range v {
				faults = append(faults, s.faults(items, item, fmt.Sprint(at, "/", i))...)
			}
		}
	case object:
		properties, _ := schema["properties"].(object)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				wrong("%v is missing", name)
			}
		}
		for name, item := range v {
			if property, ok := properties[name].(object); ok {
				faults = append(faults, s.faults(property, item, at+"/"+name)...)
			} else if schema["additionalProperties"] == false {
				wrong("%s is not documented", name)
			} else if rest, ok := schema["additionalProperties"].(object); ok {
				faults = append(faults, s.faults(rest, item, at+"/"+name)...)
			}
		}
	}
	return faults
}

func ofType(kind, v any) bool {
	if list, ok := kind.([]any); ok {
		return slices.ContainsFunc(list, func(k any) bool { return ofType(k, v) })
	}
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case json.Number:
		return kind == "number" || kind == "integer" && !strings.ContainsAny(v.String(), ".eE")
	case []any:
		return kind == "array"
	default:
		return kind == "object"
	}
}
