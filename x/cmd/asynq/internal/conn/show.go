package conn

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Setting is the value of a setting without secrets, for display.
type Setting struct{ Name, Value, From string }

const hidden = "(hidden)"

// Settings returns the settings that are set, without passwords.
func (c *Config) Settings() []Setting {
	var list []Setting
	if c.Context != "" {
		list = append(list, Setting{"context", c.Context, ""})
	}
	for _, s := range settings {
		v, ok := c.values[s.name]
		if !ok {
			continue
		}
		text := v.text
		switch {
		case s.secret:
			text = hidden
		case s.name == "uri":
			text = hidePassword(text)
		}
		list = append(list, Setting{s.name, text, v.from.String()})
	}
	return list
}

func (s source) String() string {
	return [...]string{unset: "", fromFlat: "file", fromContext: "context", fromEnv: "environment", fromFlag: "flag"}[s]
}

var passwordParam = regexp.MustCompile(`(?i)(password=)[^&#]*`)

// hidePassword removes the passwords from a URI. It is conservative: everything between the first
// colon and the last @ counts as the password.
func hidePassword(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		scheme, rest = "", uri
	} else {
		scheme += "://"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, hasPassword := strings.Cut(rest[:at], ":")
		if hasPassword {
			user += ":" + hidden
		}
		rest = user + rest[at:]
	}
	return scheme + passwordParam.ReplaceAllString(rest, "${1}"+hidden)
}

// Server describes the server of a context, without passwords.
func Server(values map[string]string) string {
	switch {
	case values["sentinel-addrs"] != "":
		return "sentinels " + values["sentinel-addrs"] + " of " + values["sentinel-master"]
	case values["cluster-addrs"] != "":
		return "cluster " + values["cluster-addrs"]
	case values["uri"] != "":
		return hidePassword(values["uri"])
	default:
		return defaultAddr
	}
}

// AddressFrom describes the source of the address of Redis, such as "from ASYNQ_URI".
func (c *Config) AddressFrom() string {
	name, from := "", unset
	for _, n := range serverSettings {
		if v := c.values[n]; v.from > from {
			name, from = n, v.from
		}
	}
	switch from {
	case unset:
		return "the default"
	case fromContext:
		return fmt.Sprintf("from context %q", c.Context)
	default:
		return "from " + from.of(name)
	}
}

// Chosen returns the name of the selected context, or "" if none is selected.
func (f *File) Chosen(fs *pflag.FlagSet, env func(string) (string, bool)) string {
	if name := flagOrEnv(fs, env, "context"); name.from != unset {
		return name.text
	}
	return f.Current
}

// Use stores name as the current context. It preserves the rest of the file, including comments.
func (f *File) Use(name string) error {
	content, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return usage("%s: not a YAML mapping of keys and values", f.Path)
	}
	top, found := doc.Content[0], false
	for i := 0; i+1 < len(top.Content); i += 2 {
		if strings.ReplaceAll(top.Content[i].Value, "-", "_") == currentKey {
			top.Content[i+1].SetString(name)
			found = true
		}
	}
	if !found {
		key, value := &yaml.Node{}, &yaml.Node{}
		key.SetString(currentKey)
		value.SetString(name)
		top.Content = append([]*yaml.Node{key, value}, top.Content...)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	return replaceFile(f.Path, b.Bytes())
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
