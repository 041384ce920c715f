package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Issue is an error or warning at a position of a file. It never contains a secret.
type Issue struct {
	File         string
	Line, Column int // from 1
	Text         string
}

// String formats the issue as compilers do: file:line:column: text.
func (i Issue) String() string { return fmt.Sprintf("%s:%d:%d: %s", i.File, i.Line, i.Column, i.Text) }

// Errors holds all errors of a file, ordered by position.
type Errors []Issue

// Error returns one line per issue.
func (e Errors) Error() string { return lines(e) }

func lines(issues []Issue) string {
	texts := make([]string, len(issues))
	for i := range issues {
		texts[i] = issues[i].String()
	}
	return strings.Join(texts, "\n")
}

// sortIssues sorts issues by position and removes duplicates.
func sortIssues(issues []Issue) []Issue {
	slices.SortStableFunc(issues, func(a, b Issue) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(issues)
}

var lineOfYAML = regexp.MustCompile(`^yaml: line (\d+): (.*)`)

var unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)

// syntaxError converts an error of the YAML parser to an issue.
func syntaxError(file string, content []byte, err error) Issue {
	issue := Issue{File: file, Line: 1, Column: 1, Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := lineOfYAML.FindStringSubmatch(err.Error()); m != nil {
		issue.Line, _ = strconv.Atoi(m[1])
		issue.Text = m[2]
	} else if m := unknownAnchor.FindStringSubmatch(err.Error()); m != nil {
		issue.Line, issue.Column = aliasIn(string(content), m[1])
	}
	issue.Text = "invalid YAML: " + issue.Text
	return issue
}

// aliasIn finds the position of an unknown alias, which the parser does not report.
func aliasIn(text, name string) (line, column int) {
	for i, row := range strings.Split(text, "\n") {
		if column := aliasInRow(row, name); column > 0 {
			return i + 1, column
		}
	}
	return 1, 1
}

func aliasInRow(row, name string) (column int) {
	var quote byte // open quotation mark, or 0
	for i := range len(row) {
		c := row[i]
		begins := i == 0 || strings.IndexByte(" \t[{,:", row[i-1]) >= 0
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case !begins:
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return 0
		case c == '*':
			if after, ok := strings.CutPrefix(row[i+1:], name); ok && (after == "" || strings.IndexByte(" \t\r]},:", after[0]) >= 0) {
				return i + 1
			}
		}
	}
	return 0
}

// issueAt returns an issue at the position of a node.
func issueAt(file string, n *yaml.Node, text string) Issue {
	return Issue{File: file, Line: max(n.Line, 1), Column: max(n.Column, 1), Text: text}
}
