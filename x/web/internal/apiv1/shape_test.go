package apiv1_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// shape maps the path of each field in a JSON document to the types of its values. In a path, []
// stands for the items of an array, and * for the keys of an object that are data.
type shape map[string][]string

// add records the values of a document. isData reports the objects whose keys are data.
func (s shape) add(path string, v any, isData func(path string) bool) {
	kind := ""
	switch v := v.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "bool"
	case json.Number:
		kind = "number"
		if _, err := v.Int64(); err == nil {
			kind = "int"
		}
	case string:
		kind = kindOfText(v)
	case []any:
		kind = "array"
		for _, item := range v {
			s.add(path+"[]", item, isData)
		}
	case map[string]any:
		kind = "object"
		for key, item := range v {
			if isData(path) {
				key = "*"
			}
			s.add(path+"."+key, item, isData)
		}
	}
	if !slices.Contains(s[path], kind) {
		s[path] = append(s[path], kind)
	}
}

func kindOfText(text string) string {
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return "time"
	}
	if _, err := time.Parse(time.DateOnly, text); err == nil {
		return "date"
	}
	switch text {
	case "":
		return "empty"
	case "-":
		return "dash"
	default:
		return "text"
	}
}

func decode(t testing.TB, body []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("no JSON: %v: %s", err, body)
	}
	return v
}

// knownShapes returns the shapes of the existing server's responses: for each route the fields with
// the types of their values. An optional field has a ? after its path; "=name" stands for the
// fields of an object that several routes have.
func knownShapes(t testing.TB) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/shapes.json")
	if err != nil {
		t.Fatal(err)
	}
	var known map[string]map[string]string
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	for _, fields := range known {
		for path, kind := range maps.Clone(fields) {
			if !strings.HasPrefix(kind, "=") {
				continue
			}
			fields[path] = "object"
			for below, kind := range known[kind] {
				fields[path+below] = kind
			}
		}
	}
	return known
}

// compare returns the differences between responses and the known shape of a route.
func compare(t testing.TB, known map[string]string, answers ...[]byte) (differences []string) {
	t.Helper()
	isData := func(path string) bool {
		for p := range known {
			if strings.HasPrefix(p, path+".*") {
				return true
			}
		}
		return false
	}
	got := make(shape)
	for _, answer := range answers {
		got.add("", decode(t, answer), isData)
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		kinds, ok := known[path]
		if !ok {
			kinds, ok = known[path+"?"]
		}
		if !ok {
			differences = append(differences, fmt.Sprintf("%s is new", path))
			continue
		}
		for _, kind := range got[path] {
			if allowed := strings.Split(kinds, "|"); !slices.Contains(allowed, kind) && (kind != "empty" || !slices.Contains(allowed, "text")) {
				differences = append(differences, fmt.Sprintf("%s is %s instead of %s", path, kind, kinds))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(known)) {
		if _, ok := got[path]; !ok && !strings.HasSuffix(path, "?") {
			differences = append(differences, fmt.Sprintf("%s is missing", path))
		}
	}
	return differences
}
