package cli

import (
	"errors"
	"os"

	"github.com/asynq-go/asynq/x/health"
)

// readSettings reads a file of health settings. Without a file, they are the defaults.
func readSettings(file string) (health.Settings, error) {
	if file == "" {
		return health.Settings{}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return health.Settings{}, usage("file %q of health settings: %w", file, errors.Unwrap(err))
	}
	s, err := health.ParseSettings(data)
	if err != nil {
		return s, usage("file %q: %w", file, err)
	}
	return s, nil
}
