package conn

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Use stores name as the current context. It preserves the rest of the file, including comments.
func (f *File) Use(name string) error {
	return f.edit(func(top *yaml.Node) error {
		if value := field(top, currentKey); value != nil {
			value.SetString(name)
			return nil
		}
		top.Content = append([]*yaml.Node{stringNode(currentKey), stringNode(name)}, top.Content...)
		return nil
	})
}

// Add stores a context with the connection flags of the command line, and the stored settings of
// guards. It replaces a context of this name. It creates the file if it does not exist, readable
// only by its owner.
func (f *File) Add(name string, flags *pflag.FlagSet, guards map[string]bool) error {
	context := &yaml.Node{Kind: yaml.MappingNode}
	values := map[string]string{}
	for _, s := range settings {
		value := ""
		switch flag := flags.Lookup(s.name); {
		case s.stored && guards[s.name]:
			value = "true"
		case s.stored || flag == nil || !flag.Changed:
			continue
		default:
			value = flag.Value.String()
		}
		if err := s.check(value); err != nil {
			return usage("--%s: %v", s.name, err)
		}
		values[s.name] = value
		context.Content = append(context.Content, stringNode(strings.ReplaceAll(s.name, "-", "_")), scalarOf(s, value))
	}
	if f.Path == "" {
		return usage("no configuration file: use --config FILE, or set HOME")
	}
	err := f.edit(func(top *yaml.Node) error {
		all := field(top, contextsKey)
		if all == nil {
			all = &yaml.Node{Kind: yaml.MappingNode}
			top.Content = append(top.Content, stringNode(contextsKey), all)
		}
		if all.Kind != yaml.MappingNode {
			*all = yaml.Node{Kind: yaml.MappingNode} // "contexts:" without a value
		}
		if old := field(all, name); old != nil {
			*old = *context
			return nil
		}
		all.Content = append(all.Content, stringNode(name), context)
		return nil
	})
	if err == nil {
		f.Contexts[name] = values
	}
	return err
}

// field returns the value of a key, or nil if the mapping has none. The key of the current context
// may contain - instead of _.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		name := mapping.Content[i].Value
		if name == key || key == currentKey && strings.ReplaceAll(name, "-", "_") == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func stringNode(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// scalarOf returns the node of a value: numbers and booleans are not quoted.
func scalarOf(s setting, value string) *yaml.Node {
	if s.kind == number || s.kind == boolean {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: value}
	}
	return stringNode(value)
}

// edit changes the top-level mapping of the file, and preserves the rest, including comments.
func (f *File) edit(change func(top *yaml.Node) error) error {
	content, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	missing := err != nil
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return usage("%s: not a YAML mapping of keys and values", f.Path)
	}
	if doc.Kind == 0 || len(doc.Content) == 1 && doc.Content[0].Tag == "!!null" { // empty, or only comments
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}, HeadComment: doc.HeadComment}
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return usage("%s: not a YAML mapping of keys and values", f.Path)
	}
	if err := change(doc.Content[0]); err != nil {
		return err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	if missing {
		return createFile(f.Path, b.Bytes())
	}
	return replaceFile(f.Path, b.Bytes())
}

// createFile creates a file that only its owner can access.
func createFile(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// replaceFile replaces a file atomically and preserves its mode.
func replaceFile(path string, content []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".asynq-*.yaml")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	if err == nil {
		err = tmp.Chmod(info.Mode().Perm())
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}
