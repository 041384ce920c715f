package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"runtime/debug"
	"strings"
)

// A component of a software bill of materials, in the format CycloneDX.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	URL        string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// sbom writes the software bill of materials of a program: the modules in its build information.
// Those of this project have the given version, because builds in the workspace do not record one.
func sbom(version, program, document string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	// The Go vulnerability database calls the standard library stdlib.
	goRelease := debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}
	components := []component{newComponent("library", &goRelease)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if own(m.Path) {
			m.Version = version
		}
		components = append(components, newComponent("library", m))
	}
	info.Main.Version = version
	data, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"component": newComponent("application", &info.Main)},
		"components": components,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(document, append(data, '\n'), 0o644)
}

func newComponent(kind string, m *debug.Module) component {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	c := component{Type: kind, Ref: url, Name: m.Path, Version: m.Version, URL: url}
	if m.Sum != "" {
		c.Properties = []property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
