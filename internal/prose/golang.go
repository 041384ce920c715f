package prose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// readGo extracts the comments, the strings and the declared names of a Go file. It leaves out
// the strings of test files.
func readGo(name string, src []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	g := &goReader{fset: fset, lines: strings.Split(string(src), "\n")}
	for _, group := range file.Comments {
		g.comment(group)
	}
	ast.Inspect(file, g.declare)
	if !strings.HasSuffix(name, "_test.go") {
		ast.Inspect(file, g.literals)
	}
	return g.source, nil
}

// goReader collects the source of a Go file.
type goReader struct {
	source source
	fset   *token.FileSet
	lines  []string // of the file
}

// line returns the line of a position.
func (g *goReader) line(pos token.Pos) int { return g.fset.Position(pos).Line }

var (
	// directive matches a comment that instructs a tool.
	directive = regexp.MustCompile(`^//(?:[a-z0-9]+:[a-z0-9]|line |export |nolint|\s*\+build )`)
	// output matches the comment after which an example lists its output.
	output = regexp.MustCompile(`(?i)^//\s*(?:unordered )?output:`)
	// indented matches a line of a comment that is code or a table, but not one of a list.
	indented = regexp.MustCompile(`^(?:\t| {2,})`)
	// listItem matches the start of a list item, in comments and in Markdown.
	listItem = regexp.MustCompile(`^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+`)
	// linkTarget matches the definition of a link target.
	linkTarget = regexp.MustCompile(`^ {0,3}\[[^\]]+\]: \S+$`)
)

// comment adds a group of comments: its prose as one passage, and its lines for the width rule.
func (g *goReader) comment(group *ast.CommentGroup) {
	var text strings.Builder
	first, inOutput, inList := g.line(group.Pos()), false, false
	last := first
	for _, c := range group.List {
		for n := g.line(c.Pos()); last < n; last++ {
			text.WriteByte('\n')
		}
		inOutput = inOutput || output.MatchString(c.Text)
		for i, line := range strings.Split(c.Text, "\n") {
			if i > 0 {
				text.WriteByte('\n')
				last++
			}
			if inOutput || directive.MatchString(line) {
				continue
			}
			prose := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(line, "//"), "/*"), "*/")
			item := listItem.MatchString(prose)
			switch {
			case item:
				inList = true
			case !indented.MatchString(prose):
				inList = inList && strings.TrimSpace(prose) == ""
			}
			isCode := indented.MatchString(prose) && !inList || strings.HasPrefix(prose, "\t")
			if !isCode {
				text.WriteString(prose)
			}
			g.width(last, prose, isCode)
		}
	}
	g.source.passages = append(g.source.passages,
		newPassage(Comment, first, string(maskCode([]byte(text.String())))))
}

// width adds a line of a comment for the width rule, unless code precedes the comment, or the
// comment itself is code, a directive or a link target.
func (g *goReader) width(line int, prose string, isCode bool) {
	whole := g.lines[line-1]
	start := strings.TrimLeft(whole, " \t")
	prose = strings.TrimSpace(prose)
	if isCode || linkTarget.MatchString(prose) || !strings.HasPrefix(start, "/") && !strings.HasPrefix(start, prose) {
		return
	}
	g.source.lines = append(g.source.lines, sourceLine{whole, listItem.ReplaceAllString(prose, ""), line})
}

// literals adds the strings of an expression as passages. Operands of + are one passage; other
// operands are masked. It leaves out import paths, struct tags, regular expressions and strings
// without a space.
func (g *goReader) literals(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.Field:
		for _, name := range n.Names {
			ast.Inspect(name, g.literals)
		}
		ast.Inspect(n.Type, g.literals)
		return false
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok {
			if pkg, ok := f.X.(*ast.Ident); ok && pkg.Name == "regexp" {
				return false
			}
		}
	case *ast.BinaryExpr:
		if n.Op == token.ADD {
			var p Passage
			g.concat(&p, n)
			g.addText(p)
			return false
		}
	case *ast.BasicLit:
		var p Passage
		g.concat(&p, n)
		g.addText(p)
	}
	return true
}

// concat appends the text of an expression to a passage.
func (g *goReader) concat(p *Passage, e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		g.concat(p, e.X)
		g.concat(p, e.Y)
		return
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			break
		}
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			break
		}
		line := g.line(e.Pos())
		p.marks = append(p.marks, position{len(p.Text), line})
		if e.Value[0] == '`' {
			for i, r := range text {
				if r == '\n' {
					line++
					p.marks = append(p.marks, position{len(p.Text) + i + 1, line})
				}
			}
		}
		p.Text += text
		return
	default:
		ast.Inspect(e, g.literals)
	}
	p.Text += string(mask)
}

// addText adds a passage of string literals if it may be prose.
func (g *goReader) addText(p Passage) {
	if !strings.Contains(p.Text, " ") || len(p.marks) == 0 {
		return
	}
	p.Kind = Text
	p.Text = string(maskCode([]byte(p.Text)))
	g.source.passages = append(g.source.passages, p)
}

// declare adds the names that a node declares.
func (g *goReader) declare(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		g.name(n.Name)
	case *ast.TypeSpec:
		g.name(n.Name)
	case *ast.ValueSpec:
		g.name(n.Names...)
	case *ast.Field:
		g.name(n.Names...)
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			g.exprs(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			g.exprs(n.Key, n.Value)
		}
	case *ast.LabeledStmt:
		g.name(n.Label)
	case *ast.ImportSpec:
		if n.Name != nil {
			g.name(n.Name)
		}
	case *ast.File:
		g.name(n.Name)
	}
	return true
}

// exprs adds those expressions that are identifiers.
func (g *goReader) exprs(list ...ast.Expr) {
	for _, e := range list {
		if id, ok := e.(*ast.Ident); ok {
			g.name(id)
		}
	}
}

// name adds declared identifiers.
func (g *goReader) name(ids ...*ast.Ident) {
	for _, id := range ids {
		g.source.names = append(g.source.names, identifier{id.Name, g.line(id.Pos())})
	}
}
