package conn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// File is a configuration file.
type File struct {
	// Path of the file, whether it is there or not.
	Path string

	// Current is the name of the context to use if no other is asked for; "" if there is none.
	Current string

	// Contexts by name, each as values by the names of their flags.
	Contexts map[string]map[string]string

	// Flat are the values of the outermost level, for when no context is chosen.
	Flat map[string]string

	// Unknown are keys of the outermost level that mean nothing.
	Unknown []string
}

const (
	currentKey  = "current_context"
	contextsKey = "contexts"
)

// LoadFile reads the configuration file. That it is not there is an error only if it was asked for by name.
func LoadFile(flags *pflag.FlagSet, env func(string) (string, bool)) (*File, error) {
	f := &File{Contexts: map[string]map[string]string{}, Flat: map[string]string{}}
	asked := flagOrEnv(flags, env, "config")
	f.Path = asked.text
	if asked.from == unset {
		home, _ := env("HOME")
		if home == "" {
			home, _ = os.UserHomeDir() // without one there is no default file
		}
		if home == "" {
			return f, nil
		}
		f.Path = filepath.Join(home, ".asynq.yaml")
	}
	content, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) && asked.from == unset {
		return f, nil
	}
	if err != nil {
		return nil, usage("configuration file: %v", err)
	}
	if err := f.parse(content); err != nil {
		return nil, usage("%s: %v", f.Path, err)
	}
	return f, nil
}

func (f *File) parse(content []byte) error {
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(content, &top); err != nil {
		return errors.New("not a YAML mapping of keys and values") // the parser's words may quote a password
	}
	for key, node := range top {
		switch flag := flagOf(key); {
		case strings.ReplaceAll(key, "-", "_") == currentKey:
			f.Current = node.Value
		case key == contextsKey:
			if err := f.parseContexts(&node); err != nil {
				return err
			}
		case known(flag):
			v, err := scalar(&node)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			f.Flat[flag] = v
		default:
			f.Unknown = append(f.Unknown, key)
		}
	}
	slices.Sort(f.Unknown)
	return nil
}

func (f *File) parseContexts(node *yaml.Node) error {
	var contexts map[string]map[string]yaml.Node
	if err := node.Decode(&contexts); err != nil {
		return errors.New("contexts: must be a mapping of names to settings")
	}
	for name, fields := range contexts {
		values := map[string]string{}
		for key, node := range fields {
			flag := flagOf(key)
			if !known(flag) {
				return fmt.Errorf("context %q: unknown key %q", name, key)
			}
			v, err := scalar(&node)
			if err != nil {
				return fmt.Errorf("context %q: %s: %w", name, key, err)
			}
			values[flag] = v
		}
		f.Contexts[name] = values
	}
	return nil
}

// scalar is the text of a value; a list counts as its items with commas between.
func scalar(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, nil
	case yaml.SequenceNode:
		items := make([]string, len(n.Content))
		for i, item := range n.Content {
			items[i] = item.Value
		}
		return strings.Join(items, ","), nil
	default:
		return "", errors.New("must be a single value")
	}
}

// flagOf is the name of the flag that a key of the file stands for.
func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

func known(flag string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return s.name == flag })
}

// Names lists the contexts, sorted.
func (f *File) Names() []string {
	names := make([]string, 0, len(f.Contexts))
	for name := range f.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
