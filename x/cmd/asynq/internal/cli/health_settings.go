package cli

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/asynq-go/asynq/x/health"
)

// healthFlags are the flags of the thresholds of problems.
type healthFlags struct {
	file       string
	thresholds []string // NAME=VALUE
}

// add adds the flags. fileFlag is the name of that of the settings file.
func (c *healthFlags) add(f *pflag.FlagSet, fileFlag string) {
	f.StringVar(&c.file, fileFlag, "", "JSON file with the thresholds of problems (docs/HEALTH.md)")
	f.StringArrayVar(&c.thresholds, "threshold", nil, "threshold of problems as NAME=VALUE, such as wait_warning=10m; repeatable; takes precedence over the file")
}

// settings returns the thresholds of the file and the flags; other thresholds are zero.
func (c *healthFlags) settings() (s health.Settings, err error) {
	values := make(map[string]json.RawMessage)
	if c.file != "" {
		data, err := os.ReadFile(c.file)
		if err != nil {
			return s, usage("file %q of health settings: %w", c.file, errors.Unwrap(err))
		}
		if s, err = health.ParseSettings(data); err != nil {
			return s, usage("file %q: %w", c.file, err)
		}
		if err := json.Unmarshal(data, &values); err != nil {
			return s, usage("file %q: %w", c.file, err)
		}
	}
	for _, text := range c.thresholds {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return s, usage("--threshold: %q does not have the form NAME=VALUE", text)
		}
		name = strings.ReplaceAll(name, "-", "_")
		if values[name] = json.RawMessage(value); !json.Valid(values[name]) {
			values[name], _ = json.Marshal(value) // a duration; texts have no error
		}
	}
	merged, err := json.Marshal(values)
	if err != nil {
		return s, usage("--threshold: %w", err)
	}
	if s, err = health.ParseSettings(merged); err != nil {
		return s, usage("--threshold: %w", err)
	}
	return s, nil
}
