package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

const branch = "main"

// repository is the address of the project, from which the go command fetches the modules.
const repository = "https://" + modulePath

// tag makes a release: it runs CI, writes the version into the modules and the changelog, commits
// that, tags each module, and installs from the tags as a check. All of it happens in a clone. The
// repository gets the result at the end, except in a dry run, which also leaves out CI. Nothing is
// pushed.
func tag(ctx context.Context, root, version string, now time.Time, dryRun bool, out io.Writer) error {
	if err := releasable(ctx, root, version); err != nil {
		return err
	}
	if dryRun {
		fmt.Fprintln(out, "dry run: CI is not run, and the repository stays as it is")
	} else if err := ci(ctx, root, out); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "asynq-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	clone := filepath.Join(dir, "clone")
	if _, err := output(ctx, root, nil, "git", "clone", "--quiet", root, clone); err != nil {
		return err
	}
	if err := copyIdentity(ctx, root, clone); err != nil {
		return err
	}
	s, err := newStage(ctx, clone, filepath.Join(dir, "stage"), version)
	if err != nil {
		return err
	}
	if err := dateChangelog(s.tree(), version, now); err != nil {
		return err
	}
	if err := s.publish(ctx); err != nil {
		return err
	}
	tags, err := s.commit(ctx, clone, version)
	if err != nil {
		return err
	}
	shown, err := output(ctx, clone, nil, "git", "show", "--stat", "--format=%s", "HEAD")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%stags: %s\n", shown, strings.Join(tags, " "))
	direct, err := s.fromTags(ctx, clone)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "the tagged modules have the hashes in the go.sum files")
	if err := direct.tryAll(ctx, out); err != nil {
		return err
	}
	if dryRun {
		return nil
	}
	if _, err := output(ctx, root, nil, "git", "pull", "--quiet", "--ff-only", "--tags", clone, branch); err != nil {
		return err
	}
	fmt.Fprintf(out, "released %s here; to publish it: git push origin %s %s\n", version, branch, strings.Join(tags, " "))
	return nil
}

// releasable returns an error if the version or the state of the repository does not permit a
// release.
func releasable(ctx context.Context, root, version string) error {
	if semver.Canonical(version) != version || semver.Build(version) != "" {
		return fmt.Errorf("%q is not a version such as v0.9.0", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return fmt.Errorf("%s needs module paths that end with /%s: change them first", version, major)
	}
	changed, err := output(ctx, root, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the working tree has changes: commit or remove them\n%s", changed)
	}
	current, err := output(ctx, root, nil, "git", "branch", "--show-current")
	if err != nil {
		return err
	}
	if strings.TrimSpace(current) != branch {
		return fmt.Errorf("releases are made from the branch %s, not from %q", branch, strings.TrimSpace(current))
	}
	listed, err := output(ctx, root, nil, "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	for earlier := range strings.FieldsSeq(listed) {
		if semver.Compare(version, earlier) <= 0 {
			return fmt.Errorf("%s is not newer than the release %s", version, earlier)
		}
	}
	return nil
}

// ci runs all checks of the project.
func ci(ctx context.Context, root string, out io.Writer) error {
	fmt.Fprintln(out, "running CI, which takes up to 25 minutes")
	_, err := output(ctx, root, []string{"CI=true"}, "bash", ".ci/run")
	return err
}

// copyIdentity makes commits in the clone those of the user of the repository.
func copyIdentity(ctx context.Context, root, clone string) error {
	for _, name := range []string{"user.name", "user.email"} {
		value, err := output(ctx, root, nil, "git", "config", name)
		if err != nil {
			return fmt.Errorf("git does not know who makes the release: set %s: %w", name, err)
		}
		if _, err := output(ctx, clone, nil, "git", "config", name, strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}

// unreleased is the heading of the changes since the last release.
const unreleased = "## [Unreleased]\n"

var unreleasedLink = regexp.MustCompile(`(?m)^\[Unreleased\]: .*$`)

// dateChangelog makes the unreleased changes those of the version.
func dateChangelog(root, version string, now time.Time) error {
	name := filepath.Join(root, "CHANGELOG.md")
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(data), unreleased)
	link := unreleasedLink.FindString(after)
	if !found || link == "" {
		return errors.New("CHANGELOG.md has no section [Unreleased] with a link at its end")
	}
	if changes, _, _ := strings.Cut(after, "\n## ["); strings.TrimSpace(strings.Replace(changes, link, "", 1)) == "" {
		return errors.New("the section [Unreleased] of CHANGELOG.md is empty: describe what users will notice")
	}
	number := strings.TrimPrefix(version, "v")
	text := before + unreleased + "\n## [" + number + "] - " + now.UTC().Format(time.DateOnly) + "\n" +
		strings.Replace(after, link, fmt.Sprintf("[Unreleased]: %s/compare/%s...%s\n[%s]: %s/releases/tag/%s",
			repository, version, branch, number, repository, version), 1)
	return os.WriteFile(name, []byte(text), 0o644)
}

// commit commits the files of the tree that a release changes to a clone, and tags all modules that
// users install.
func (s *stage) commit(ctx context.Context, clone, version string) (tags []string, err error) {
	names := []string{"CHANGELOG.md", "go.work"}
	for _, m := range s.modules {
		names = append(names, filepath.Join(m.dir, "go.mod"), filepath.Join(m.dir, "go.sum"))
	}
	for _, name := range names {
		err := copyFile(filepath.Join(s.tree(), name), filepath.Join(clone, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a module without dependencies has no go.sum file
			return nil, err
		}
	}
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", "release " + version}} {
		if _, err := output(ctx, clone, nil, append([]string{"git"}, args...)...); err != nil {
			return nil, err
		}
	}
	for _, m := range s.modules {
		if !m.installed() {
			continue
		}
		name := m.tag(version)
		if _, err := output(ctx, clone, nil, "git", "tag", "--annotate", "--message", "release "+version, name); err != nil {
			return nil, err
		}
		tags = append(tags, name)
	}
	return tags, nil
}

// fromTags returns a stage whose go command fetches the modules from the tags of a clone, as it
// will from the published repository. Their hashes must be those in the go.sum files.
func (s *stage) fromTags(ctx context.Context, clone string) (*stage, error) {
	direct := *s
	direct.dir = filepath.Join(s.dir, "direct")
	direct.env = append(slices.Clone(s.env),
		"GOMODCACHE="+filepath.Join(direct.dir, "mod"), "GOPRIVATE="+modulePath, "GONOPROXY="+modulePath,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+fileURL(clone)+".insteadOf", "GIT_CONFIG_VALUE_0="+repository,
	)
	if err := os.MkdirAll(direct.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Rename(s.tree(), direct.tree()); err != nil {
		return nil, err
	}
	for _, m := range s.modules {
		if !m.installed() {
			continue
		}
		if err := direct.run(ctx, m.dir, "go", "mod", "download"); err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return &direct, nil
}
