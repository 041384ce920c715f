package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// modulePath is the path of the core. Those of the other modules begin with it.
const modulePath = "github.com/asynq-go/asynq"

// A module is one of the modules of go.work.
type module struct {
	path string
	dir  string // relative to the root, with slashes; "." is the core
	file *modfile.File
}

// installed reports whether users install the module. The others serve development only.
func (m module) installed() bool { return m.dir != "test" }

// tag returns the Git tag of a version of the module.
func (m module) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// own reports whether a module is one of this project.
func own(path string) bool { return path == modulePath || strings.HasPrefix(path, modulePath+"/") }

// findRoot returns the directory of go.work.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work here or above: run it in the project")
		}
		dir = parent
	}
}

// readModules returns the modules of go.work. Each follows those that it requires.
func readModules(root string) ([]module, error) {
	name := filepath.Join(root, "go.work")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, data, nil)
	if err != nil {
		return nil, err
	}
	var all []module
	for _, use := range work.Use {
		file, err := readModFile(filepath.Join(root, use.Path))
		if err != nil {
			return nil, err
		}
		all = append(all, module{path: file.Module.Mod.Path, dir: filepath.ToSlash(filepath.Clean(use.Path)), file: file})
	}
	return inOrder(all)
}

func readModFile(dir string) (*modfile.File, error) {
	name := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, data, nil)
}

// inOrder sorts modules so that each follows those that it requires.
func inOrder(all []module) ([]module, error) {
	slices.SortFunc(all, func(a, b module) int { return cmp.Compare(a.path, b.path) })
	var sorted []module
	for len(all) > 0 {
		next := slices.IndexFunc(all, func(m module) bool {
			return !slices.ContainsFunc(m.file.Require, func(r *modfile.Require) bool {
				return slices.ContainsFunc(all, func(left module) bool { return left.path == r.Mod.Path })
			})
		})
		if next < 0 {
			return nil, fmt.Errorf("the modules from %s require each other in a circle", all[0].path)
		}
		sorted = append(sorted, all[next])
		all = slices.Delete(all, next, next+1)
	}
	return sorted, nil
}

// setVersion makes the go.mod file in a directory require one version of the own modules.
func setVersion(dir, version string) error {
	file, err := readModFile(dir)
	if err != nil {
		return err
	}
	if err := requireOwn(file, version); err != nil {
		return err
	}
	data, err := file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), data, 0o644)
}

// setWorkVersion makes go.work replace that version of the own modules by those of the project.
func setWorkVersion(root, version string) error {
	name := filepath.Join(root, "go.work")
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork(name, data, nil)
	if err != nil {
		return err
	}
	for _, r := range slices.Clone(work.Replace) {
		if !own(r.Old.Path) {
			continue
		}
		path, dir := r.Old.Path, r.New.Path // DropReplace clears r
		if err := work.DropReplace(path, r.Old.Version); err != nil {
			return err
		}
		if err := work.AddReplace(path, version, dir, ""); err != nil {
			return err
		}
	}
	work.Cleanup()
	return os.WriteFile(name, modfile.Format(work.Syntax), 0o644)
}

func requireOwn(file *modfile.File, version string) error {
	for _, r := range file.Require {
		if own(r.Mod.Path) {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownVersion returns the version of the own modules that a go.mod file requires, or "" if it
// requires none.
func ownVersion(file *modfile.File) string {
	for _, r := range file.Require {
		if own(r.Mod.Path) {
			return r.Mod.Version
		}
	}
	return ""
}

// noReplace returns an error if users could not install a module because of its go.mod file.
func noReplace(m module) error {
	if m.installed() && len(m.file.Replace) > 0 {
		return fmt.Errorf("%s/go.mod has a replace directive, which makes go install refuse the module: remove it", m.dir)
	}
	return nil
}

// sums returns the lines of a go.sum file that are about own modules, or those that are not.
func sums(data []byte, ofOwn bool) []byte {
	var found strings.Builder
	for line := range strings.Lines(string(data)) {
		path, _, _ := strings.Cut(line, " ")
		if own(path) == ofOwn {
			found.WriteString(line)
		}
	}
	return []byte(found.String())
}
