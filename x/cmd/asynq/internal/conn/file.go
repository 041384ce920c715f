package conn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// File is a configuration file.
type File struct {
	// Path is the path of the file, even if the file does not exist.
	Path string

	// Current is the name of the default context; "" if there is none.
	Current string

	// Contexts maps context names to their settings, by flag name.
	Contexts map[string]map[string]string

	// Flat are the top-level settings, which apply if no context is selected.
	Flat map[string]string

	// Unknown are unknown top-level keys.
	Unknown []string

	// Exposed reports that the file contains a password and that users other than its owner may
	// access it. It is always false on Windows, where the file mode does not show this.
	Exposed bool
}

const (
	currentKey  = "current_context"
	contextsKey = "contexts"
)

// LoadFile reads the configuration file. A missing file is an error only if a flag or the
// environment names it.
func LoadFile(flags *pflag.FlagSet, env func(string) (string, bool)) (*File, error) {
	return loadFile(flags, env, false)
}

// LoadFileToAdd is LoadFile for Add: a missing file is no error.
func LoadFileToAdd(flags *pflag.FlagSet, env func(string) (string, bool)) (*File, error) {
	return loadFile(flags, env, true)
}

func loadFile(flags *pflag.FlagSet, env func(string) (string, bool), mayMiss bool) (*File, error) {
	f := &File{Contexts: map[string]map[string]string{}, Flat: map[string]string{}}
	named := flagOrEnv(flags, env, "config")
	f.Path = named.text
	if named.from == unset {
		home, _ := env("HOME")
		if home == "" {
			home, _ = os.UserHomeDir() // without one there is no default file
		}
		if home == "" {
			return f, nil
		}
		f.Path = filepath.Join(home, ".asynq.yaml")
	}
	content, mode, err := readFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) && (mayMiss || named.from == unset) {
		return f, nil
	}
	if err != nil {
		return nil, usage("configuration file: %v", err)
	}
	if err := f.parse(content); err != nil {
		return nil, usage("%s: %v", f.Path, err)
	}
	f.Exposed = runtime.GOOS != "windows" && mode.IsRegular() && mode.Perm()&0o077 != 0 && f.hasPassword()
	return f, nil
}

// readFile returns the content of a file and its mode.
func readFile(path string) ([]byte, fs.FileMode, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	content, err := io.ReadAll(file)
	return content, info.Mode(), err
}

// hasPassword reports whether the file contains a password, in any context, on its own or in a URI.
func (f *File) hasPassword() bool {
	if containsPassword(f.Flat) {
		return true
	}
	for _, values := range f.Contexts {
		if containsPassword(values) {
			return true
		}
	}
	return false
}

func containsPassword(values map[string]string) bool {
	for _, s := range settings {
		if v := values[s.name]; s.secret && v != "" || s.name == "uri" && hidePassword(v) != v {
			return true
		}
	}
	return false
}

func (f *File) parse(content []byte) error {
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(content, &top); err != nil {
		return errors.New("not a YAML mapping of keys and values") // the parser's error may quote a password
	}
	for key, node := range top {
		switch flag := flagOf(key); {
		case strings.ReplaceAll(key, "-", "_") == currentKey:
			f.Current = node.Value
		case key == contextsKey:
			if err := f.parseContexts(&node); err != nil {
				return err
			}
		case isSetting(flag):
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
			if !isSetting(flag) {
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

// scalar returns the text of a value. The items of a list are joined with commas.
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

// flagOf returns the flag name of a key in the file.
func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

func isSetting(flag string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return s.name == flag })
}

// Names returns the sorted names of the contexts.
func (f *File) Names() []string {
	names := make([]string, 0, len(f.Contexts))
	for name := range f.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
