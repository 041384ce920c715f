package apiv2

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// document returns the OpenAPI document of the routes.
func (a *api) document() object {
	s := schemas{}
	paths := object{}
	for _, r := range a.routes {
		path, _ := paths[r.path].(object)
		if path == nil {
			path = object{}
			paths[r.path] = path
		}
		path[strings.ToLower(r.method)] = r.operation(s)
	}
	s.of(reflect.TypeFor[Problem]())
	version := a.Version
	if version == "" {
		version = "2"
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "asynq", "version": version, "license": object{"name": "MIT", "identifier": "MIT"},
			"description": "Queues, tasks, servers and schedules of asynq in one Redis. Errors are application/problem+json (RFC 9457). " +
				"Names and IDs in paths must be percent-escaped. They may contain any character, including `/`.",
		},
		"servers":  []object{{"url": strings.TrimSuffix(a.RootPath, "/") + prefix}},
		"security": []object{{}, {"basic": []string{}}}, // no login is required without users or with a role for anonymous users
		"paths":    paths,
		"components": object{
			"schemas": s,
			"securitySchemes": object{
				"basic": object{"type": "http", "scheme": "basic", "description": "The user name and password of a user of the web UI."},
			},
		},
	}
}

func (r *route) operation(s schemas) object {
	op := object{"operationId": r.id, "tags": []string{r.tag}, "summary": r.doc, "responses": r.responses(s)}
	var params []object
	parts, _ := segments(r.path)
	for _, p := range parts {
		if name, ok := placeholder(p); ok {
			params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string", "minLength": 1}})
		}
	}
	for _, p := range r.params {
		params = append(params, p.document())
	}
	header := func(name, doc string) {
		params = append(params, object{"name": name, "in": "header", "required": false, "schema": object{"type": "string"}, "description": doc})
	}
	if slices.Contains(r.problems, http.StatusPreconditionFailed) {
		header("If-Match", "The ETag that the task must have. Otherwise the request fails with 412.")
	}
	if r.id == "getTask" {
		header("If-None-Match", "ETags of the task. If the task still has one of them, the response is 304.")
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if r.body != nil {
		content := object{"schema": s.of(reflect.TypeOf(r.body))}
		if r.example != nil {
			content["example"] = r.example
		}
		op["requestBody"] = object{"required": !r.opt, "content": object{"application/json": content}}
	}
	return op
}

func (p *param) document() object {
	schema := object{"type": p.kind}
	if len(p.enum) > 0 {
		schema["enum"] = p.enum
	}
	if p.kind == "integer" {
		schema["minimum"], schema["maximum"] = p.min, p.max
	}
	if p.def != nil {
		schema["default"] = p.def
	}
	out := object{"name": p.name, "in": "query", "required": false, "description": p.doc}
	if p.list {
		schema = object{"type": "array", "items": schema}
		out["explode"] = true
	}
	out["schema"] = schema
	return out
}

// statuses returns the statuses of all problems of a route.
func (r *route) statuses() []int {
	all := append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotAcceptable}, r.problems...)
	if r.body != nil {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return all
}

func (r *route) responses(s schemas) object {
	out := object{}
	for _, status := range r.statuses() {
		out[strconv.Itoa(status)] = object{
			"description": http.StatusText(status),
			"content":     object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}},
		}
	}
	answer := func(status int, value any) {
		if value == nil {
			out[strconv.Itoa(status)] = object{"description": http.StatusText(status)}
			return
		}
		kind := "application/json"
		if strings.HasSuffix(r.path, ".yaml") {
			kind = "application/yaml"
		}
		out[strconv.Itoa(status)] = object{
			"description": http.StatusText(status), "content": object{kind: object{"schema": s.of(reflect.TypeOf(value))}},
		}
	}
	for status, value := range r.also {
		answer(status, value)
	}
	if r.id == "getTask" {
		answer(http.StatusNotModified, nil)
	}
	switch {
	case r.out == nil:
		answer(http.StatusNoContent, nil)
	case r.status != 0:
		answer(r.status, r.out)
	default:
		answer(http.StatusOK, r.out)
	}
	return out
}
