package conn

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
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

// Guards reports whether a context is protected, and whether it is read-only.
func Guards(values map[string]string) (protected, readOnly bool) {
	protected, _ = strconv.ParseBool(values["protected"])
	readOnly, _ = strconv.ParseBool(values["read-only"])
	return protected, readOnly
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
