package prose

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Finding is one violation of a rule.
type Finding struct {
	File    string // slash-separated, relative to the root of the repository
	Line    int    // 0 if the finding is about the name of the file
	Rule    string
	Text    string // the match, with a few words of context
	Instead string // what to write in its place
}

// String returns the finding as "file:line: rule: text → instead".
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s → %s", f.File, f.Line, f.Rule, f.Text, f.Instead)
}

// exemptions lists files that are exempt from some rules. Width is checked in all of them.
var exemptions = []struct {
	file   string
	exempt func(Passage, *wordRule) bool
}{
	// The strings of the rule table are the banned phrases.
	{"internal/prose/rules.go", func(p Passage, _ *wordRule) bool { return p.Kind == Text }},
	// Entries of the change log keep the names that were current when they were written.
	{"CHANGELOG.md", func(_ Passage, r *wordRule) bool { return r.oldName }},
}

// skippedDirs are names of directories that hold no prose of this repository, or only test data.
var skippedDirs = []string{"testdata", "vendor", "node_modules", "axe"}

// visibleDirs are names of directories that are checked although they begin with a dot.
var visibleDirs = []string{".ci", ".github"}

// skippedFiles are names of files that are not checked.
var skippedFiles = []string{"LICENSE", "go.sum", "go.work.sum", "package-lock.json"}

// CheckTree checks the files below root whose path, relative to root and slash-separated, begins
// with prefix. It returns the findings sorted by file and line.
func CheckTree(root, prefix string) ([]Finding, error) {
	var findings []Finding
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if rel != "." && skipDir(entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || !strings.HasPrefix(rel, prefix) ||
			slices.Contains(skippedFiles, entry.Name()) {
			return nil
		}
		src, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since the directory was read
		}
		if err != nil {
			return err
		}
		found, err := CheckFile(rel, src)
		if err != nil {
			return err
		}
		findings = append(findings, found...)
		return nil
	})
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return findings, err
}

// skipDir reports whether a directory with this name is left out of the walk.
func skipDir(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return !slices.Contains(visibleDirs, name)
	}
	return slices.Contains(skippedDirs, name)
}

// generated matches the line that marks a generated Go file.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// CheckFile checks one file. The name is slash-separated and relative to the root of the
// repository; it selects the language and the rules. Files in an unknown language have only their
// names checked. CheckFile returns an error if a Go file cannot be parsed.
func CheckFile(name string, src []byte) ([]Finding, error) {
	var findings []Finding
	base := path.Base(name)
	if rule, word := bannedName(strings.TrimSuffix(base, path.Ext(base))); rule != nil {
		findings = append(findings, nameFinding(name, 0, word, base, rule))
	}
	if !generated.Match(src) && !bytes.ContainsRune(src[:min(len(src), 512)], 0) {
		s, err := read(name, src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, p := range s.passages {
			findings = append(findings, checkWords(name, p)...)
		}
		for _, id := range s.names {
			if rule, word := bannedName(id.text); rule != nil {
				findings = append(findings, nameFinding(name, id.line, word, id.text, rule))
			}
		}
		for _, line := range s.lines {
			if f, ok := checkWidth(name, line); !ok {
				findings = append(findings, f)
			}
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	return findings, nil
}

// checkWords applies the word rules to a passage.
func checkWords(name string, p Passage) []Finding {
	var findings []Finding
	for i := range wordRules {
		rule := &wordRules[i]
		if !rule.applies(name, p) {
			continue
		}
		for _, at := range rule.find(p.Text) {
			findings = append(findings, Finding{
				File:    name,
				Line:    p.line(at[0]),
				Rule:    rule.name,
				Text:    excerpt(p.Text, at[0], at[1]),
				Instead: rule.instead,
			})
		}
	}
	return findings
}

// applies reports whether the rule is checked in a passage of the named file.
func (r *wordRule) applies(name string, p Passage) bool {
	if r.kinds != 0 && r.kinds&p.Kind == 0 {
		return false
	}
	if r.in != nil && !slices.ContainsFunc(r.in, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
		return false
	}
	for _, e := range exemptions {
		if e.file == name && e.exempt(p, r) {
			return false
		}
	}
	return true
}

// find returns the start and end of each match in text that does not overlap a match of the
// except pattern.
func (r *wordRule) find(text string) [][]int {
	matches := r.pattern.FindAllStringIndex(text, -1)
	if matches == nil || r.except == nil {
		return matches
	}
	allowed := r.except.FindAllStringIndex(text, -1)
	return slices.DeleteFunc(matches, func(m []int) bool {
		return slices.ContainsFunc(allowed, func(a []int) bool { return a[0] < m[1] && m[0] < a[1] })
	})
}

// contextBytes is about how much text an excerpt has on each side of a match.
const contextBytes = 30

// excerpt returns text[start:end] with the words around it, on one line.
func excerpt(text string, start, end int) string {
	from, to := max(0, start-contextBytes), min(len(text), end+contextBytes)
	if i := strings.IndexAny(text[from:start], " \n"); from > 0 && i >= 0 {
		from += i
	}
	if i := strings.LastIndexAny(text[end:to], " \n"); to < len(text) && i >= 0 {
		to = end + i
	}
	s := strings.ReplaceAll(strings.ToValidUTF8(text[from:to], ""), string(mask), " ")
	return `"` + strings.Join(strings.Fields(s), " ") + `"`
}

// nameFinding returns the finding of a banned word in a name.
func nameFinding(file string, line int, word, name string, rule *nameRule) Finding {
	return Finding{
		File:    file,
		Line:    line,
		Rule:    "name",
		Text:    fmt.Sprintf("%q in %s", word, name),
		Instead: rule.instead,
	}
}

// bannedName returns the first name rule that a word of the identifier or file name breaks, and
// that word. It returns nil if there is none.
func bannedName(name string) (*nameRule, string) {
	for _, word := range splitName(name) {
		for i := range nameRules {
			if slices.Contains(nameRules[i].words, word) {
				return &nameRules[i], word
			}
		}
	}
	return nil, ""
}

var (
	// nameWord matches one word of an identifier.
	nameWord = regexp.MustCompile(`\p{Lu}?\p{Ll}+|\p{Lu}+`)
	// initialism matches the end of an initialism and the start of the next word.
	initialism = regexp.MustCompile(`(\p{Lu})(\p{Lu}\p{Ll})`)
)

// splitName returns the words of an identifier or file name in lower case. It splits "HTTPServer",
// "httpServer", "http_server" and "http-server" alike.
func splitName(name string) []string {
	words := nameWord.FindAllString(initialism.ReplaceAllString(name, "${1}_${2}"), -1)
	for i, word := range words {
		words[i] = strings.ToLower(word)
	}
	return words
}

// MaxColumns is how many columns a line of prose may have. A tab of the indentation counts as four.
const MaxColumns = 100

// checkWidth reports whether a line fits in MaxColumns. If not, it returns the finding. A line with
// a single word, such as a long URL, cannot be broken and always fits.
func checkWidth(name string, line sourceLine) (Finding, bool) {
	n := columns(line.text)
	if n <= MaxColumns || !strings.ContainsAny(strings.TrimSpace(line.prose), " \t") {
		return Finding{}, true
	}
	return Finding{
		File:    name,
		Line:    line.line,
		Rule:    "width",
		Text:    fmt.Sprintf("%d columns", n),
		Instead: fmt.Sprintf("wrap at %d", MaxColumns),
	}, false
}

// columns returns how many columns a line occupies.
func columns(line string) int {
	n := 0
	for _, r := range line {
		if r == '\t' {
			n += 4
		} else {
			n++
		}
	}
	return n
}
