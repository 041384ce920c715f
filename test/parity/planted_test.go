package parity

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// Each entry has a declaration of the reference, ours, and the expected differences.
var planted = []struct{ theirs, ours, want string }{
	{`const C = 1`, `const C = 1; const D = 2`, ""},
	{`const C = 1`, `const C = 2`, "C: value 2 instead of 1"},
	{`const C int32 = 1`, `const C int = 1`, "C: int instead of int32"},
	{`const C = 1`, `var C = 1`, "C: not a constant"},
	{`var V error`, `var V error`, ""},
	{`var V error`, `func V() {}`, "V: not a variable"},
	{`var V, u error`, `var W error`, "V: missing"},
	{`type T struct{}; var V *T`, `type T struct{}; var V *T`, ""},
	{`type T struct{}; var V *T`, `type T struct{}; type U struct{}; var V *U`, "V: *U instead of *T"},
	{`type T struct{}; func F(t []T, m map[string]*T, more ...T) <-chan T { return nil }`,
		`type internal struct{}; type T = internal; func F(t []T, m map[string]*T, more ...T) <-chan T { return nil }`, ""},
	{`func F(a ...int) {}`, `func F(a []int) {}`, "F: func(a []int) instead of func(a ...int)"},
	{`func F(a [2]int) {}`, `func F(a [3]int) {}`, "F: func(a [3]int) instead of func(a [2]int)"},
	{`func F() error { return nil }`, `func F() {}`, "F: func() instead of func() error"},
	{`type T struct{ A int; b int }`, `type T struct{ C, A int }`, ""},
	{`type T struct{ A, B int }`, `type T struct{ A int8 }`, "T.A: int8 instead of int|T.B: missing"},
	{`type E struct{}; type T struct{ *E }`, `type E struct{}; type T struct{ E *E }`, "T.E: embedded in one of both only"},
	{`type T struct{ A int }`, `type T struct{ A int; f func() }`, "T: not comparable"},
	{`type T struct{ a int }`, `type T struct{ f func() }`, ""},
	{`type T int`, `type T int8`, "T: int8 instead of int"},
	{`type T int`, `type T struct{}`, "T: struct{} instead of int"},
	{`type T struct{}`, `type T int`, "T: not a struct"},
	{`type T struct{}`, `type T interface{}`, "T: not a struct"},
	{`type T interface{ M() }`, `type T struct{}`, "T: not an interface"},
	{`type T interface{ M(); N() }`, `type T interface{ M(int); O() }`,
		"T.M: func(int) instead of func()|T.N: missing|T.O: an additional method of an interface"},
	{`type T struct{}; func (T) M() {}`, `type T struct{}; func (*T) M() {}`, "T.M: missing"},
	{`type T struct{}; func (*T) M() {}; func (*T) N() {}`, `type T struct{}; func (T) M() {}`, "(*T).N: missing"},
	{`type e struct{}; func (e) M() {}; type T struct{ e }`, `type T struct{}`, "T.M: missing"},
	{`type I interface{ m() }; type T struct{}; func (T) m() {}`, `type I interface{ m() }; type T struct{}`, "(*T): does not implement I|T: does not implement I"},
}

func TestComparison(t *testing.T) {
	for _, p := range planted {
		ref, own := check(t, "ref", p.theirs), check(t, "own", p.ours)
		var want []string
		if p.want != "" {
			want = strings.Split(p.want, "|")
		}
		var got []string
		for _, d := range compare(ref, own) {
			got = append(got, d.String())
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s\nbecame %s\ngot  %q\nwant %q", p.theirs, p.ours, got, want)
		}
	}
}

func check(t *testing.T, name, source string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name+".go", "package asynq; "+source, 0)
	if err != nil {
		t.Fatal(err)
	}
	cfg := types.Config{Importer: importer.Default()}
	pkg, err := cfg.Check(name, fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

func TestTableNeedsReasons(t *testing.T) {
	const head = "| identifier | difference | reason |\n|---|---|---|\n"
	table, err := parseTable(head + "| `A` | missing | It is bad. |\n\n| `x` | y | z |\n")
	if err != nil || !slices.Equal(table, []difference{{"A", "missing"}}) {
		t.Errorf("got %v, %v", table, err)
	}
	if _, err := parseTable(head + "| `A` | missing |  |\n"); err == nil {
		t.Error("a line without reason was accepted")
	}
}
