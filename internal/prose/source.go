package prose

import (
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// A Kind is the kind of source that a passage comes from.
type Kind uint8

// The kinds of sources.
const (
	Comment  Kind = 1 << iota // a comment in code
	Text                      // a text that a user reads: a string literal, a template, a description
	Document                  // Markdown
)

// A Passage is a piece of prose: a comment, a string, or all prose of a file in a markup language.
// Everything else in it, such as code in a comment or tags in a template, is masked.
type Passage struct {
	Kind Kind
	Text string

	marks []position // the lines of the file that Text comes from, by offset
}

// position says which line of the file Text has from offset on.
type position struct {
	offset, line int
}

// mask replaces code and names within prose. It is not white space, so no phrase matches across it.
const mask = '\x00'

// line returns the line of the file that Text[offset] comes from.
func (p Passage) line(offset int) int {
	i := sort.Search(len(p.marks), func(i int) bool { return p.marks[i].offset > offset })
	return p.marks[max(i-1, 0)].line
}

// newPassage returns a passage whose first line is the given one, and whose other lines follow it.
func newPassage(kind Kind, line int, text string) Passage {
	p := Passage{Kind: kind, Text: text, marks: []position{{0, line}}}
	for i, r := range text {
		if r == '\n' {
			line++
			p.marks = append(p.marks, position{i + 1, line})
		}
	}
	return p
}

// source holds the parts of a file that the rules check.
type source struct {
	passages []Passage
	names    []identifier
	lines    []sourceLine
}

// identifier is a declared name.
type identifier struct {
	text string
	line int
}

// sourceLine is a line that the width rule applies to.
type sourceLine struct {
	text  string // the whole line
	prose string // the line without indentation, comment marker and list marker
	line  int
}

// read extracts the parts of a file that the rules check. It returns an empty source if the
// language is unknown, and an error if a Go file cannot be parsed.
func read(name string, src []byte) (source, error) {
	text := strings.ReplaceAll(string(src), "\r\n", "\n")
	switch base := path.Base(name); path.Ext(base) {
	case ".go":
		return readGo(name, []byte(text))
	case ".md":
		return readMarkdown(text), nil
	case ".html", ".tmpl":
		return source{passages: readTemplate(text)}, nil
	case ".lua":
		return readLua(text), nil
	case ".js", ".mjs":
		return readCode(text, syntax{line: []string{"//"}, open: "/*", end: "*/", quotes: "\"'`", regexps: true}), nil
	case ".php":
		return readCode(text, syntax{line: []string{"//", "#"}, open: "/*", end: "*/", quotes: `"'`}), nil
	case ".css":
		return readCode(text, syntax{open: "/*", end: "*/"}), nil
	case ".py":
		return readCode(text, syntax{line: []string{"#"}, open: `"""`, end: `"""`, quotes: `"'`}), nil
	case ".yml", ".yaml":
		return readHash(text, true), nil
	case ".json":
		return readJSON(text), nil
	case ".sh", ".mk":
		return readHash(text, false), nil
	default:
		if base == "Makefile" || name == ".ci/run" {
			return readHash(text, false), nil
		}
		return source{}, nil
	}
}

// syntax describes the comments and the strings of a programming language.
type syntax struct {
	line      []string // markers of comments that end with the line
	open, end string   // delimiters of other comments
	quotes    string   // the characters that enclose strings
	regexps   bool     // whether slashes may enclose regular expressions
}

// readCode extracts the comments and the strings of a file. A string without a space is not prose.
func readCode(text string, s syntax) source {
	comments, texts := blank(text), blank(text)
	for i := 0; i < len(text); {
		switch {
		case s.open != "" && strings.HasPrefix(text[i:], s.open):
			from, to := enclosed(text, i, s.open, s.end)
			copy(comments[from:to], text[from:to])
			i = to + len(s.end)
		case slices.ContainsFunc(s.line, func(m string) bool { return strings.HasPrefix(text[i:], m) }):
			i = keepLine(comments, text, i)
		case strings.IndexByte(s.quotes, text[i]) >= 0:
			end := stringEnd(text, i)
			if strings.Contains(text[i:end], " ") {
				copy(texts[i+1:end], text[i+1:end])
			}
			i = end + 1
		case s.regexps && text[i] == '/' && i > 0 && strings.ContainsAny(text[i-1:i], "(, ="):
			i = stringEnd(text, i) + 1
		default:
			i++
		}
	}
	clearStars(comments)
	return source{
		passages: []Passage{
			newPassage(Comment, 1, string(maskCode(comments))),
			newPassage(Text, 1, string(texts)),
		},
		lines: commentLines(text, s.line...),
	}
}

// blank returns a masked copy of text that keeps its line breaks.
func blank(text string) []byte {
	b := []byte(text)
	for i := range b {
		if b[i] != '\n' {
			b[i] = mask
		}
	}
	return b
}

// enclosed returns the bounds of the text between open, at text[at:], and end. If end is missing,
// the text ends with the file.
func enclosed(text string, at int, open, end string) (from, to int) {
	from = at + len(open)
	if n := strings.Index(text[from:], end); n >= 0 {
		return from, from + n
	}
	return from, len(text)
}

// keepLine copies the comment that starts at text[at:] into b. It unmasks the marker and the
// indentation as spaces, so that a phrase may continue on the next line. It returns the offset of
// the end of the line.
func keepLine(b []byte, text string, at int) int {
	end := len(text)
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
		end = at + n
	}
	start := at
	for start < end && strings.IndexByte("/#-", text[start]) >= 0 {
		start++
	}
	copy(b[start:end], text[start:end])
	indent := strings.LastIndexByte(text[:at], '\n') + 1
	if strings.TrimSpace(text[indent:at]) != "" {
		indent = at
	}
	for i := indent; i < start; i++ {
		b[i] = ' '
	}
	return end
}

// stringEnd returns the offset of the quote that closes the string which opens at text[at]. A
// string that is not enclosed in backquotes ends at the end of its line at the latest.
func stringEnd(text string, at int) int {
	quote := text[at]
	for i := at + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == quote, text[i] == '\n' && quote != '`':
			return i
		}
	}
	return len(text)
}

// starLine matches the star at the start of a line of a block comment.
var starLine = regexp.MustCompile(`\n[ \t\x00]*\*+`)

// clearStars replaces the stars and the masked indentation at the starts of lines by spaces.
func clearStars(comments []byte) {
	for _, at := range starLine.FindAllIndex(comments, -1) {
		for i := at[0] + 1; i < at[1]; i++ {
			comments[i] = ' '
		}
	}
}

// notProse matches code and names within prose: spans in backquotes, URLs, and single words in
// double quotes.
var notProse = regexp.MustCompile("`[^`\n]+`|https?://[^\\s)>\"]+|\"[^\"\\s]+\"")

// maskCode masks what notProse matches.
func maskCode(b []byte) []byte {
	for _, at := range notProse.FindAllIndex(b, -1) {
		for i := at[0]; i < at[1]; i++ {
			b[i] = mask
		}
	}
	return b
}

// commentLines returns the lines that hold nothing but a comment, which starts with a marker.
func commentLines(text string, markers ...string) []sourceLine {
	var lines []sourceLine
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " \t")
		for _, marker := range markers {
			if prose, ok := strings.CutPrefix(trimmed, marker); ok && !strings.HasPrefix(trimmed, "#!") {
				lines = append(lines, sourceLine{line, prose, i + 1})
				break
			}
		}
	}
	return lines
}

// parsedHeader matches a line of a script's header that its loader parses. Such a line has no
// limit.
var parsedHeader = regexp.MustCompile(`^(KEYS\[|ARGV\[|include:)`)

// luaName matches the declarations of a Lua file.
var luaName = regexp.MustCompile(`(?m)^\s*(?:local (?:function )?|function )(\w+(?:, *\w+)*)`)

// readLua extracts the comments, strings and names of a Lua file.
func readLua(text string) source {
	s := readCode(text, syntax{line: []string{"--"}, open: "--[[", end: "]]", quotes: `"'`})
	s.lines = slices.DeleteFunc(s.lines, func(l sourceLine) bool {
		return parsedHeader.MatchString(strings.TrimSpace(l.prose))
	})
	for _, at := range luaName.FindAllStringSubmatchIndex(text, -1) {
		line := 1 + strings.Count(text[:at[2]], "\n")
		for _, name := range strings.Split(text[at[2]:at[3]], ",") {
			s.names = append(s.names, identifier{strings.TrimSpace(name), line})
		}
	}
	return s
}

// hashComment matches a comment that starts with a hash sign, or two in a Makefile.
var hashComment = regexp.MustCompile(`(?m)^[ \t]*#+[ \t](.*)$|[ \t]#{1,2}[ \t]([^"'\n]*)$`)

// yamlKey matches the key of a YAML line.
var yamlKey = regexp.MustCompile(`(?m)^[ \t-]*[\w.$/-]+:`)

// readHash extracts the comments of a shell script, a Makefile or a YAML file. If values is set,
// the values of the YAML file are texts.
func readHash(text string, values bool) source {
	comments, texts := blank(text), []byte(text)
	for _, at := range hashComment.FindAllStringIndex(text, -1) {
		hash := at[0] + strings.IndexByte(text[at[0]:at[1]], '#')
		keepLine(comments, text, hash)
		copy(texts[at[0]:at[1]], blank(text[at[0]:at[1]]))
	}
	s := source{
		passages: []Passage{newPassage(Comment, 1, string(maskCode(comments)))},
		lines:    commentLines(text, "#"),
	}
	if values {
		for _, at := range yamlKey.FindAllIndex(texts, -1) {
			copy(texts[at[0]:at[1]], blank(string(texts[at[0]:at[1]])))
		}
		s.passages = append(s.passages, newPassage(Text, 1, string(maskCode(texts))))
	}
	return s
}

// jsonText matches the members of a JSON file that people read.
var jsonText = regexp.MustCompile(`"(?:description|summary|title|text|detail)"\s*:\s*"((?:[^"\\]|\\.)*)"`)

// readJSON extracts the descriptions of a JSON file, such as an OpenAPI document or a dashboard.
func readJSON(text string) source {
	texts := blank(text)
	for _, at := range jsonText.FindAllStringSubmatchIndex(text, -1) {
		copy(texts[at[2]:at[3]], strings.ReplaceAll(text[at[2]:at[3]], `\n`, "  "))
	}
	return source{passages: []Passage{newPassage(Text, 1, string(maskCode(texts)))}}
}
