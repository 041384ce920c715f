package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tidy runs go mod tidy in all modules. The versions and hashes of the own modules stay as they
// are: a release sets them. With diff, it changes nothing, and returns an error if it would.
func tidy(ctx context.Context, root string, diff bool, out io.Writer) error {
	dir, err := os.MkdirTemp("", "asynq-tidy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newStage(ctx, root, dir, checkVersion)
	if err != nil {
		return err
	}
	if err := s.publish(ctx); err != nil {
		return err
	}
	untidy := false
	for _, m := range s.modules {
		from, to := filepath.Join(s.tree(), m.dir), filepath.Join(root, m.dir)
		if !m.installed() {
			if err := s.run(ctx, m.dir, "go", "mod", "tidy"); err != nil {
				return err
			}
		}
		files, err := tidied(from, to)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		for name, data := range files {
			before, err := os.ReadFile(filepath.Join(to, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if bytes.Equal(before, data) {
				continue
			}
			untidy = true
			fmt.Fprintf(out, "%s differs:\n%s", filepath.Join(m.dir, name), changes(string(before), string(data)))
			if !diff {
				if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
					return err
				}
			}
		}
	}
	if untidy && diff {
		return errors.New("go.mod or go.sum is not tidy: run make tidy")
	}
	return nil
}

// tidied returns the files of a module as go mod tidy left them in one folder, with the versions
// and hashes of the own modules in another.
func tidied(from, to string) (map[string][]byte, error) {
	file, err := readModFile(from)
	if err != nil {
		return nil, err
	}
	original, err := readModFile(to)
	if err != nil {
		return nil, err
	}
	version := ownVersion(original)
	if version == "" {
		version = "v0.0.0"
	}
	if err := requireOwn(file, version); err != nil {
		return nil, err
	}
	mod, err := file.Format()
	if err != nil {
		return nil, err
	}
	after, err := readSum(from)
	if err != nil {
		return nil, err
	}
	sum, err := readSum(to)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"go.mod": mod, "go.sum": joinSums(sums(sum, true), sums(after, false))}, nil
}

// readSum reads the go.sum file in a folder. A module without dependencies has none.
func readSum(dir string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// joinSums inserts the lines of own modules into the others, in the order of go.sum.
func joinSums(ofOwn, others []byte) []byte {
	at := 0
	for line := range bytes.Lines(others) {
		if string(line) > modulePath {
			break
		}
		at += len(line)
	}
	return slices.Concat(others[:at], ofOwn, others[at:])
}

// changes returns the lines that only one of two texts has.
func changes(before, after string) string {
	var b strings.Builder
	only := func(sign, of, other string) {
		lines := slices.Collect(strings.Lines(other))
		for line := range strings.Lines(of) {
			if !slices.Contains(lines, line) {
				b.WriteString(sign + line)
			}
		}
	}
	only("-", before, after)
	only("+", after, before)
	return b.String()
}
