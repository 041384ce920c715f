package script_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// luaFile is a script as its header and its body describe it.
type luaFile struct {
	name     string
	body     string // of the file itself
	full     string // with the shared parts
	includes []string
	keys     values
	args     values
	has      map[string]bool // header words
}

// values are KEYS or ARGV as the header declares them.
type values struct {
	names []string // of the fixed ones
	each  []string // of those that repeat, in one round
	locks []string // of those that repeat for each lock or other value, behind all others
}

var (
	headerValue = regexp.MustCompile(`^-- (KEYS|ARGV)\[(\d+)(\.\.)?\] +(.+)$`)
	headerWord  = regexp.MustCompile(`^-- ([A-Z]+) +\S`)
	variantMark = regexp.MustCompile(`(?m)^ *-- members: `) // of the lines that only a variant runs
	roundBrace  = regexp.MustCompile(`\([^)]*\)`)
)

// readLua reads a script. It reports errors in the form of its header.
func readLua(t *testing.T, path string) *luaFile {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = variantMark.ReplaceAll(text, nil)
	f := &luaFile{name: strings.TrimSuffix(filepath.Base(path), ".lua"), has: make(map[string]bool)}
	f.body = withoutComments(string(text))
	joined := regexp.MustCompile(`\n-- {6,}`).ReplaceAllString(string(text), " ") // a header line that continues
	for line := range strings.Lines(joined) {
		line = strings.TrimSuffix(line, "\n")
		if m := headerValue.FindStringSubmatch(line); m != nil {
			v := &f.keys
			if m[1] == "ARGV" {
				v = &f.args
			}
			if n, _ := strconv.Atoi(m[2]); n != len(v.names)+1 || v.each != nil {
				t.Errorf("the header does not declare %s in their order: %s", m[1], line)
			}
			if m[3] == "" {
				v.names = append(v.names, m[4])
			} else {
				each, locks, _ := strings.Cut(m[4], "; then ")
				if strings.HasPrefix(each, "for each lock: ") || strings.HasPrefix(each, "for each value: ") {
					each, locks = "", each
				}
				v.each, v.locks = repeated(each), repeated(locks)
			}
		} else if m := headerWord.FindStringSubmatch(line); m != nil {
			f.has[m[1]] = true
		} else if names, ok := strings.CutPrefix(line, "-- include: "); ok {
			f.includes = append(f.includes, strings.Fields(names)...)
		}
	}
	for _, name := range f.includes {
		lib, err := os.ReadFile(filepath.Join(filepath.Dir(path), "lib", name+".lua"))
		if errors.Is(err, fs.ErrNotExist) {
			lib, err = os.ReadFile(filepath.Join("lua", name+".lua"))
		}
		if err != nil {
			t.Errorf("it includes what does not exist: %v", err)
		}
		f.full += withoutComments(string(lib))
	}
	f.full += f.body
	return f
}

var eachStart = regexp.MustCompile(`for each \w+: `)

// repeated reads what a header says of values that repeat: "the task's hash, for each task", or
// "for each task: id, token, …".
func repeated(text string) []string {
	if text == "" {
		return nil
	}
	text = strings.ReplaceAll(roundBrace.ReplaceAllString(text, ""), " ;", ";")
	if at := eachStart.FindStringIndex(text); at != nil {
		list := strings.ReplaceAll(text[at[1]:], ", else 0", "")
		return strings.Split(list, ", ")
	}
	name, _, _ := strings.Cut(text, ", ")
	return []string{name}
}

func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		if strings.TrimSpace(code) != "" {
			b.WriteString(strings.TrimRight(code, " \n") + "\n")
		}
	}
	return b.String()
}

func luaFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../[ri]*/lua/*.lua")
	doctor, _ := filepath.Glob("../../x/doctor/lua/*.lua") // the pattern is well-formed
	files = append(files, doctor...)
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d scripts, error %v", len(files), err)
	}
	return files
}

func TestScriptHeaders(t *testing.T) {
	for _, path := range luaFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := readLua(t, path)
			for _, word := range []string{"RETURN", "BOUND"} {
				if !f.has[word] {
					t.Errorf("the header has no %s", word)
				}
			}
			checkUse(t, f, "KEYS", f.keys)
			checkUse(t, f, "ARGV", f.args)
		})
	}
}

var (
	fixedIndex  = regexp.MustCompile(`^\d+$`)
	roundIndex  = regexp.MustCompile(`^(?:(\d+) \* )?([ika])(?: \+ (\d+))?$`) // 2 * i + 1
	cursorStart = regexp.MustCompile(`local a = (\d+)\n`)                     // and a = a + 4 in each round
	cursorStep  = regexp.MustCompile(`\n *a = a \+ (\d+)\n`)
	cursorRound = regexp.MustCompile(`local a = (\d+) \* i - (\d+)\n`)
	keyLoop     = regexp.MustCompile(`for k = (\d+), #KEYS(?:, (\d+))? do\n`)
)

// checkUse compares the values that a script uses with those that its header declares.
func checkUse(t *testing.T, f *luaFile, what string, declared values) {
	t.Helper()
	used := make(map[int]bool)        // fixed ones
	first, last, round := 1<<30, 0, 1 // of the repeated ones: the indexes in the first round, and how many to the next
	for _, use := range regexp.MustCompile(what+`\[([^\]]+)\]`).FindAllStringSubmatch(f.full, -1) {
		if fixedIndex.MatchString(use[1]) {
			used[number(use[1], 0)] = true
			continue
		}
		m := roundIndex.FindStringSubmatch(use[1])
		if m == nil {
			t.Errorf("it computes an index that cannot be checked: %s", use[0])
			continue
		}
		start, step := cursor(t, f, m[2])
		step *= number(m[1], 1)
		index := start*number(m[1], 1) + number(m[3], 0)
		first, last, round = min(first, index), max(last, index), step
	}
	if m := regexp.MustCompile(`unpack\(` + what + `, (\d+)\)`).FindStringSubmatch(f.body); m != nil && declared.each != nil {
		first, round = min(first, number(m[1], 0)), len(declared.each) // all that repeat, in one table
		last = first + round - 1
	}
	for i := range used {
		if i == 0 || i > len(declared.names)+len(declared.each) { // code for a single task may use fixed indexes
			t.Errorf("it uses %s[%d], and the header declares %d", what, i, len(declared.names))
		}
	}
	for i := range declared.names {
		if !used[i+1] {
			t.Errorf("it does not use %s[%d]", what, i+1)
		}
	}
	n := len(declared.each)
	if n == 0 && last > 0 {
		n = len(declared.locks)
	}
	if last == 0 && n == 0 {
		return
	}
	if want := len(declared.names) + 1; first != want || last != want+n-1 || round != n {
		t.Errorf("for the first task it uses %s[%d] to [%d], for each other one %d further; the header names [%d] to [%d]: %q",
			what, first, last, round, want, want+n-1, declared.each)
	}
}

// cursor returns the value of a loop's variable in the first round, and how much it grows with
// each.
func cursor(t *testing.T, f *luaFile, name string) (start, step int) {
	t.Helper()
	if name == "i" {
		return 1, 1
	}
	if m := keyLoop.FindStringSubmatch(f.body); name == "k" && m != nil {
		return number(m[1], 0), number(m[2], 1)
	}
	if m := cursorRound.FindStringSubmatch(f.body); name == "a" && m != nil {
		return number(m[1], 0) - number(m[2], 0), number(m[1], 0)
	}
	from, by := cursorStart.FindStringSubmatch(f.body), cursorStep.FindStringSubmatch(f.body)
	if name == "a" && from != nil && by != nil {
		return number(from[1], 0), number(by[1], 0)
	}
	t.Errorf("it does not say how %s grows", name)
	return 0, 0
}

// number reads a number, or returns that for none.
func number(text string, none int) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return none
}

var luaName = regexp.MustCompile(`(?m)^local (?:function )?(\w+)`)

// Every script includes what it needs and nothing else, and every shared part is needed.
func TestScriptIncludes(t *testing.T) {
	libs, err := filepath.Glob("../[ri]*/lua/lib/*.lua")
	shared, _ := filepath.Glob("lua/*.lua") // the patterns are well-formed
	doctor, _ := filepath.Glob("../../x/doctor/lua/lib/*.lua")
	libs = slices.Concat(libs, shared, doctor)
	if err != nil || len(libs) == 0 {
		t.Fatalf("found %d shared parts, error %v", len(libs), err)
	}
	defines := make(map[string][]string) // the names that a shared part gives
	text := make(map[string]string)
	for _, path := range libs {
		lib, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".lua")
		text[name] = withoutComments(string(lib))
		for _, m := range luaName.FindAllStringSubmatch(text[name], -1) {
			defines[name] = append(defines[name], m[1])
		}
	}
	uses := func(code, name string) bool { return regexp.MustCompile(`\b` + name + `\b`).MatchString(code) }
	needed := make(map[string]bool)
	for _, path := range luaFiles(t) {
		f := readLua(t, path)
		before := "" // definitions included so far: Lua knows a local only after its line
		included := make(map[string]bool)
		for i, name := range f.includes {
			included[name], needed[name] = true, true
			after := f.body
			for _, later := range f.includes[i+1:] {
				after += text[later]
			}
			found := false
			for _, def := range defines[name] {
				found = found || uses(after, def)
			}
			if !found {
				t.Errorf("%s includes %s and does not need it", f.name, name)
			}
			for lib, names := range defines {
				for _, def := range names {
					if lib != name && uses(text[name], def) && !uses(before, def) && !strings.Contains(text[name], "local "+def) &&
						!isParameter(text[name], def) {
						t.Errorf("%s includes %s before %s, which it needs", f.name, name, lib)
					}
				}
			}
			before += text[name]
		}
		for lib, names := range defines {
			for _, def := range names {
				if !included[lib] && regexp.MustCompile(`\b`+def+`\(`).MatchString(f.body) {
					t.Errorf("%s calls %s and does not include %s", f.name, def, lib)
				}
			}
		}
	}
	for name := range text {
		if !needed[name] {
			t.Errorf("no script includes %s", name)
		}
	}
}

// isParameter reports whether a name is only that of a parameter, or a text.
func isParameter(code, name string) bool {
	return !regexp.MustCompile(`\b`+name+`\(`).MatchString(code) && strings.ToUpper(name) != name
}
