// Package editor lets a user edit text in the editor of the environment.
package editor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// ErrNone means that the environment names no editor.
var ErrNone = errors.New("no editor: set EDITOR, for example to vi")

// Command returns the words of the editor's command line: of VISUAL or EDITOR, split at spaces.
func Command(env func(string) (string, bool)) ([]string, error) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if text, _ := env(name); strings.TrimSpace(text) != "" {
			return strings.Fields(text), nil
		}
	}
	return nil, ErrNone
}

// File writes text to a new file that only the user can access, and returns the command that edits
// it. The caller removes the file.
func File(ctx context.Context, command []string, text []byte) (path string, cmd *exec.Cmd, err error) {
	f, err := os.CreateTemp("", "asynq-*.txt")
	if err != nil {
		return "", nil, err
	}
	_, err = f.Write(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", nil, err
	}
	return f.Name(), exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], f.Name())...), nil
}
