package access

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// verbs returns all declared verbs, so that tests cover all of them.
func verbs(t *testing.T) (out []Verb) {
	f, err := parser.ParseFile(token.NewFileSet(), "action.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Verb" {
				s, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, Verb(s))
			}
		}
		return true
	})
	if len(out) < 12 {
		t.Fatalf("found the verbs %q only", out)
	}
	return out
}

func TestRoleMay(t *testing.T) {
	t.Parallel()
	for _, v := range verbs(t) {
		least := Operator
		switch v {
		case View:
			least = Viewer
		case QueueDelete, AuditView, ServerQuiet, ServerStop:
			least = Admin
		}
		for r := None; r <= Admin; r++ {
			if got := r.May(v); got != (r >= least) {
				t.Errorf("%v may %s: %v", r, v, got)
			}
		}
	}
	for _, r := range []Role{-1, Admin + 1} {
		if r.May(View) {
			t.Errorf("%v may view", r)
		}
	}
	if Admin.May("") || Admin.May("tasks.run") {
		t.Error("an unknown verb is allowed")
	}
}

func TestRoleText(t *testing.T) {
	t.Parallel()
	for r := None; r <= Admin; r++ {
		text, err := r.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Role
		if err := back.UnmarshalText(text); err != nil || back != r {
			t.Errorf("%s is read as %v: %v", text, back, err)
		}
	}
	if r, err := ParseRole("ADMIN"); err != nil || r != Admin {
		t.Error(r, err)
	}
	r := Viewer
	if err := r.UnmarshalText([]byte("root")); err == nil || r != Viewer {
		t.Error(r, err)
	}
	if _, err := Role(9).MarshalText(); err == nil {
		t.Error("no error")
	}
	if s := Role(9).String(); s != "Role(9)" {
		t.Error(s)
	}
}
