package parity

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

// report is the output of a row of the program in calls.
type report struct {
	Row     string
	Elapsed time.Duration
	Seen    []struct{ Aspect, Value string }
}

// aspects returns the observations of the row by name.
func (r *report) aspects() map[string]string {
	all := make(map[string]string)
	if r != nil {
		for _, o := range r.Seen {
			all[o.Aspect] = o.Value
		}
	}
	return all
}

// disagreement is an aspect of a row that differs between the libraries.
type disagreement struct {
	row, aspect  string
	theirs, ours string
	// wording is set if both calls failed or panicked, and errors.Is does not distinguish the
	// errors.
	wording bool
}

// key returns the text that the patterns of the table match.
func (d disagreement) key() string { return d.row + " | " + d.aspect }

func (d disagreement) String() string {
	return fmt.Sprintf("%s\n\treference:    %s\n\tthis library: %s", d.key(), d.theirs, d.ours)
}

// absent is the value of an aspect that one library did not report.
const absent = "(none)"

// programs builds the program in calls with the reference and, using an overlay, with this library.
func programs(t *testing.T) (theirs, ours string) {
	t.Helper()
	dir := t.TempDir()
	sources, err := filepath.Glob(filepath.Join("calls", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	replace, swapped := make(map[string]string), 0
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		other := bytes.ReplaceAll(text, []byte(strconv.Quote(refPath)), []byte(strconv.Quote(ownPath)))
		if bytes.Equal(text, other) {
			continue
		}
		swapped++
		full, err := filepath.Abs(source)
		if err != nil {
			t.Fatal(err)
		}
		replace[full] = filepath.Join(dir, filepath.Base(source))
		if err := os.WriteFile(replace[full], other, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if swapped == 0 {
		t.Fatalf("the program in calls does not import %s", refPath)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	theirs, ours = filepath.Join(dir, "theirs.exe"), filepath.Join(dir, "ours.exe")
	for _, args := range [][]string{{"build", "-o", theirs, "./calls"}, {"build", "-overlay", overlayFile, "-o", ours, "./calls"}} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return theirs, ours
}

// caller runs a program with its own Redis, which is embedded in the program if redis-server is
// missing.
type caller struct {
	program string
	redis   string
}

// databases is the number of databases of the Redis server: at least one per row.
const databases = 8000

func newCaller(t *testing.T, program string) *caller {
	t.Helper()
	found, err := proctest.HasRedis()
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{program: program}
	if found && os.Getenv("PARITY_EMBEDDED") == "" {
		c.redis = proctest.StartRedis(t, "--databases", strconv.Itoa(databases)).Addr()
	}
	return c
}

// run runs the program and returns its output, also if it fails.
func (c *caller) run(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, append([]string{"-redis", c.redis}, args...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	proctest.DieWithParent(cmd)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		text := errs.String()
		if at := strings.Index(text, "panic: "); at >= 0 {
			text = text[at:]
		}
		err = fmt.Errorf("%w: %.2000s", err, text)
	}
	return out.Bytes(), err
}

// all runs all rows.
func (c *caller) all() (map[string]*report, error) {
	out, err := c.run()
	if err != nil {
		return nil, err
	}
	reports := make(map[string]*report)
	for _, line := range bytes.Split(bytes.TrimSpace(out), []byte("\n")) {
		r := new(report)
		if err := json.Unmarshal(line, r); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		reports[r.Row] = r
	}
	return reports, nil
}

// tolerance is the permitted difference of points in time, in seconds, in addition to the duration
// of the row.
const tolerance = 2.1

var distances = regexp.MustCompile(`⟦(-?[0-9.]+)⟧`)

// equalWithin reports whether two values are equal, up to the tolerance of points in time.
func equalWithin(a, b string, within float64) bool {
	if a == b {
		return true
	}
	if distances.ReplaceAllString(a, "⟦⟧") != distances.ReplaceAllString(b, "⟦⟧") {
		return false
	}
	x, y := distances.FindAllStringSubmatch(a, -1), distances.FindAllStringSubmatch(b, -1)
	for i := range x {
		v, err1 := strconv.ParseFloat(x[i][1], 64)
		w, err2 := strconv.ParseFloat(y[i][1], 64)
		if err1 != nil || err2 != nil || math.Abs(v-w) > within {
			return false
		}
	}
	return true
}

// disagreements compares the observations of the rows.
func disagreements(theirs, ours map[string]*report) (found []disagreement) {
	for _, row := range slices.Sorted(maps.Keys(theirs)) {
		a, b := theirs[row].aspects(), ours[row].aspects()
		within := tolerance
		for _, r := range []*report{theirs[row], ours[row]} {
			if r != nil {
				within = max(within, tolerance+r.Elapsed.Seconds())
			}
		}
		for _, aspect := range slices.Sorted(maps.Keys(union(a, b))) {
			d := disagreement{row: row, aspect: aspect, theirs: cmp.Or(a[aspect], absent), ours: cmp.Or(b[aspect], absent)}
			if !equalWithin(d.theirs, d.ours, within) {
				d.wording = wording(aspect, a, b)
				found = append(found, d)
			}
		}
	}
	return found
}

func union(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// wording reports whether an aspect is the text of an error or panic that both libraries produce.
func wording(aspect string, a, b map[string]string) bool {
	if a[aspect] == "" || b[aspect] == "" {
		return false
	}
	if strings.HasSuffix(aspect, "panic") || aspect == "ErrorHandler" {
		return true
	}
	step, ok := strings.CutSuffix(aspect, "error")
	return ok && a[step+"fails"] == "true" && b[step+"fails"] == "true" && a[step+"errors.Is"] == b[step+"errors.Is"]
}

// matches reports whether a key matches a pattern.
func matches(pattern, key string) bool {
	if !strings.Contains(pattern, " | ") {
		pattern += " | *"
	}
	first, rest, wild := strings.Cut(pattern, "*")
	key, ok := strings.CutPrefix(key, first)
	if !ok || !wild {
		return ok && key == ""
	}
	for part := range strings.SplitSeq(rest, "*") {
		at := strings.Index(key, part)
		if at < 0 {
			return false
		}
		key, first = key[at+len(part):], part
	}
	return key == "" || first == "" || strings.HasSuffix(key, first) // the last part must match at the end
}

// TestCalls makes the calls of the program in calls with both libraries. Differences must be in the
// table, and every line of the table must still apply.
func TestCalls(t *testing.T) {
	theirs, ours := programs(t)
	var reports [2]map[string]*report
	var errs [2]error
	var wg sync.WaitGroup
	embedded := false
	for i, program := range []string{theirs, ours} {
		c := newCaller(t, program)
		embedded = c.redis == ""
		wg.Go(func() { reports[i], errs[i] = c.all() })
	}
	wg.Wait()
	for i, name := range []string{"the reference", "this library"} {
		if errs[i] != nil {
			t.Fatalf("with %s: %v", name, errs[i])
		}
	}
	checkCalls(t, reports[0], reports[1], embedded)
}

// tableResult is the comparison of the disagreements with the table.
type tableResult struct {
	rows     int
	unlisted []disagreement
	stale    []string
	counts   []int // number of rows per line of the table
}

func checkTable(theirs, ours map[string]*report, table []listed, additions []string) *tableResult {
	j := &tableResult{rows: len(theirs), counts: make([]int, len(table))}
	used := make(map[string]bool)
	rows := make([]map[string]bool, len(table))
	for _, d := range disagreements(theirs, ours) {
		if d.theirs == absent {
			if i := slices.IndexFunc(additions, func(pattern string) bool { return matches(pattern, d.key()) }); i >= 0 {
				used[additions[i]] = true
				continue
			}
		}
		known := false
		for i, line := range table {
			for k, pattern := range line.keys {
				if matches(pattern, d.key()) && (line.only == nil || line.only(d)) {
					used[fmt.Sprint(i, k)] = true
					known = true
				}
			}
			if known {
				if rows[i] == nil {
					rows[i] = make(map[string]bool)
				}
				rows[i][d.row] = true
				break
			}
		}
		if !known {
			j.unlisted = append(j.unlisted, d)
		}
	}
	for _, pattern := range additions {
		if !used[pattern] {
			j.stale = append(j.stale, pattern)
		}
	}
	for i, line := range table {
		j.counts[i] = len(rows[i])
		for k, pattern := range line.keys {
			if !used[fmt.Sprint(i, k)] {
				j.stale = append(j.stale, pattern)
			}
		}
	}
	return j
}

// checkCalls compares the reports with the table, and the table with the documentation, which has
// the counts for redis-server: the embedded Redis supports Cluster commands, so fewer calls fail.
func checkCalls(t *testing.T, theirs, ours map[string]*report, embedded bool) {
	t.Helper()
	if len(theirs) != len(ours) {
		t.Errorf("%d rows with the reference, and %d with this library", len(theirs), len(ours))
	}
	j := checkTable(theirs, ours, differences, additions)
	for _, d := range j.unlisted {
		t.Errorf("differs from the reference: %v", d)
	}
	for _, pattern := range j.stale {
		t.Errorf("the table of differences lists a difference that no longer exists: %s", pattern)
	}
	if !t.Failed() && !embedded {
		checkPage(t, j, differences)
	}
}
