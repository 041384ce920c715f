package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A manifest is an object of Kubernetes, as far as the checks read it.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Ports    []port
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
			}
		}
	}
}

type port struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
	Port          int
	TargetPort    string `yaml:"targetPort"`
}

type container struct {
	Args           []string
	Command        []string
	Ports          []port
	ReadinessProbe *struct {
		HTTPGet *httpGet `yaml:"httpGet"`
	} `yaml:"readinessProbe"`
	LivenessProbe *struct {
		HTTPGet *httpGet `yaml:"httpGet"`
	} `yaml:"livenessProbe"`
}

type httpGet struct{ Path, Port string }

// manifests reads the objects of deploy/kubernetes.
func manifests(root string) ([]manifest, error) {
	names, err := filepath.Glob(filepath.Join(root, "deploy", "kubernetes", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []manifest
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		for decoder := yaml.NewDecoder(f); err == nil; {
			var m manifest
			if err = decoder.Decode(&m); err == nil {
				all = append(all, m)
			}
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// A composition is a compose file, as far as the checks read it.
type composition struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Ports       []string
		Healthcheck struct{ Test []string }
	}
}

func readComposition(root string) (composition, error) {
	var c composition
	data, err := os.ReadFile(filepath.Join(root, "deploy", "compose.yaml"))
	if err != nil {
		return c, err
	}
	err = yaml.Unmarshal(data, &c)
	return c, err
}

// A commandLine is one that a file of deploy/ passes to the program.
type commandLine struct {
	file string
	args []string
}

// commandLines returns all command lines of the program in deploy/.
func commandLines(root string) ([]commandLine, error) {
	var lines []commandLine
	units, err := filepath.Glob(filepath.Join(root, "deploy", "systemd", "*.service"))
	if err != nil {
		return nil, err
	}
	for _, unit := range units {
		data, err := os.ReadFile(unit)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if args, ok := strings.CutPrefix(line, "ExecStart=/usr/local/bin/asynq "); ok {
				lines = append(lines, commandLine{filepath.Base(unit), strings.Fields(args)})
			}
		}
	}
	c, err := readComposition(root)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"service", "web", "exporter"} {
		s := c.Services[name]
		lines = append(lines, commandLine{"compose.yaml: " + name, s.Command})
		if test := s.Healthcheck.Test; len(test) > 2 {
			lines = append(lines, commandLine{"compose.yaml: health check of " + name, test[2:]})
		}
	}
	objects, err := manifests(root)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		for _, c := range o.Spec.Template.Spec.Containers {
			if len(c.Args) > 0 {
				lines = append(lines, commandLine{"kubernetes: " + o.Metadata.Name, c.Args})
			}
		}
	}
	return lines, nil
}
