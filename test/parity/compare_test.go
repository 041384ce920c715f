package parity

import (
	"cmp"
	"fmt"
	"go/constant"
	"go/types"
	"slices"
)

// difference is a difference that a program written for the reference would notice.
type difference struct {
	identifier string // without the package: Client.Enqueue, RedisClientOpt
	what       string
}

func (d difference) String() string { return d.identifier + ": " + d.what }

// comparison compares the API of the reference with ours.
type comparison struct {
	ref, own *types.Package
	found    []difference
}

// compare returns all differences, sorted. Additions are not differences.
func compare(ref, own *types.Package) []difference {
	c := &comparison{ref: ref, own: own}
	for _, name := range ref.Scope().Names() {
		if theirs := ref.Scope().Lookup(name); theirs.Exported() {
			c.object(name, theirs)
		}
	}
	slices.SortFunc(c.found, func(a, b difference) int {
		return cmp.Or(cmp.Compare(a.identifier, b.identifier), cmp.Compare(a.what, b.what))
	})
	return slices.Compact(c.found)
}

func (c *comparison) report(identifier, format string, args ...any) {
	c.found = append(c.found, difference{identifier, fmt.Sprintf(format, args...)})
}

// object compares the objects of one name.
func (c *comparison) object(name string, theirs types.Object) {
	ours := c.own.Scope().Lookup(name)
	if ours == nil {
		c.report(name, "missing")
		return
	}
	switch theirs := theirs.(type) {
	case *types.Const:
		ours, ok := ours.(*types.Const)
		if !ok {
			c.report(name, "not a constant")
			return
		}
		if !constant.Compare(theirs.Val(), eql, ours.Val()) {
			c.report(name, "value %v instead of %v", ours.Val(), theirs.Val())
		}
	case *types.Var:
		if _, ok := ours.(*types.Var); !ok {
			c.report(name, "not a variable")
			return
		}
	case *types.Func:
		if _, ok := ours.(*types.Func); !ok {
			c.report(name, "not a function")
			return
		}
	case *types.TypeName:
		if _, ok := ours.(*types.TypeName); !ok {
			c.report(name, "not a type")
			return
		}
		c.typeName(name, theirs.Type(), ours.Type())
		return
	}
	c.typesOf(name, theirs.Type(), ours.Type())
}

func (c *comparison) typesOf(identifier string, theirs, ours types.Type) {
	if !c.same(theirs, ours) {
		c.report(identifier, "%s instead of %s", c.spell(ours), c.spell(theirs))
	}
}

// spell formats a type without the package name.
func (c *comparison) spell(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == c.ref || p == c.own {
			return ""
		}
		return p.Name()
	})
}

// typeName compares two types of the same name: their structure, methods and interfaces.
func (c *comparison) typeName(name string, theirs, ours types.Type) {
	switch under := theirs.Underlying().(type) {
	case *types.Struct:
		if own, ok := ours.Underlying().(*types.Struct); ok {
			c.fields(name, under, own)
		} else {
			c.report(name, "not a struct")
		}
	case *types.Interface:
		if own, ok := ours.Underlying().(*types.Interface); ok {
			c.methodsOfInterface(name, under, own)
		} else {
			c.report(name, "not an interface")
		}
		return // its method set is that of the interface
	default:
		c.typesOf(name, under, ours.Underlying())
	}
	if usableAsValue(theirs) && types.Comparable(theirs) && !types.Comparable(ours) {
		c.report(name, "not comparable")
	}
	c.methods(name, theirs, ours)
	c.methods("(*"+name+")", types.NewPointer(theirs), types.NewPointer(ours))
	c.satisfies(name, theirs, ours)
	c.satisfies("(*"+name+")", types.NewPointer(theirs), types.NewPointer(ours))
}

// usableAsValue reports whether programs use values of a type. Types without exported fields are
// used as pointers only.
func usableAsValue(t types.Type) bool {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return true
	}
	for f := range s.Fields() {
		if f.Exported() {
			return true
		}
	}
	return false
}

// fields compares the exported fields.
func (c *comparison) fields(name string, theirs, ours *types.Struct) {
	own := make(map[string]*types.Var)
	for f := range ours.Fields() {
		own[f.Name()] = f
	}
	for f := range theirs.Fields() {
		if !f.Exported() {
			continue
		}
		identifier := name + "." + f.Name()
		switch same := own[f.Name()]; {
		case same == nil:
			c.report(identifier, "missing")
		case f.Embedded() != same.Embedded():
			c.report(identifier, "embedded in one of both only")
		default:
			c.typesOf(identifier, f.Type(), same.Type())
		}
	}
}

// methodsOfInterface compares two interfaces. Additional methods are differences, because types of
// users would no longer implement the interface.
func (c *comparison) methodsOfInterface(name string, theirs, ours *types.Interface) {
	own := make(map[string]*types.Func)
	for m := range ours.Methods() {
		own[m.Name()] = m
	}
	for m := range theirs.Methods() {
		identifier := name + "." + m.Name()
		if same := own[m.Name()]; same == nil {
			c.report(identifier, "missing")
		} else {
			c.typesOf(identifier, m.Type(), same.Type())
		}
		delete(own, m.Name())
	}
	for added := range own {
		c.report(name+"."+added, "an additional method of an interface")
	}
}

// methods compares the method sets, including promoted methods. (*T) is reported only if the method
// set of T lacks the method.
func (c *comparison) methods(name string, theirs, ours types.Type) {
	set, own := types.NewMethodSet(theirs), types.NewMethodSet(ours)
	_, pointer := theirs.(*types.Pointer)
	for selection := range set.Methods() {
		m := selection.Obj()
		if !m.Exported() {
			continue
		}
		if pointer && types.NewMethodSet(theirs.(*types.Pointer).Elem()).Lookup(m.Pkg(), m.Name()) != nil {
			continue // reported for T
		}
		identifier := name + "." + m.Name()
		if same := own.Lookup(nil, m.Name()); same == nil {
			c.report(identifier, "missing")
		} else {
			c.typesOf(identifier, selection.Type(), same.Type())
		}
	}
}

// satisfies checks that our type implements the same interfaces of the package as the reference's
// type.
func (c *comparison) satisfies(name string, theirs, ours types.Type) {
	for _, other := range c.ref.Scope().Names() {
		theirInterface, ok := interfaceNamed(c.ref, other)
		if !ok || !types.Implements(theirs, theirInterface) {
			continue
		}
		ourInterface, ok := interfaceNamed(c.own, other)
		if ok && !types.Implements(ours, ourInterface) {
			c.report(name, "does not implement %s", other)
		}
	}
}

func interfaceNamed(pkg *types.Package, name string) (*types.Interface, bool) {
	object, ok := pkg.Scope().Lookup(name).(*types.TypeName)
	if !ok || !object.Exported() {
		return nil, false
	}
	i, ok := object.Type().Underlying().(*types.Interface)
	return i, ok
}
