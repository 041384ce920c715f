package parity

import (
	"go/token"
	"go/types"
)

const eql = token.EQL

// same reports whether ours is the same type as theirs, with the types of the reference replaced by
// ours.
func (c *comparison) same(theirs, ours types.Type) bool {
	theirs, ours = types.Unalias(theirs), types.Unalias(ours)
	if named, ok := theirs.(*types.Named); ok && named.Obj().Pkg() == c.ref {
		mine, ok := c.own.Scope().Lookup(named.Obj().Name()).(*types.TypeName)
		return ok && types.Identical(types.Unalias(mine.Type()), ours)
	}
	switch theirs := theirs.(type) {
	case *types.Pointer:
		ours, ok := ours.(*types.Pointer)
		return ok && c.same(theirs.Elem(), ours.Elem())
	case *types.Slice:
		ours, ok := ours.(*types.Slice)
		return ok && c.same(theirs.Elem(), ours.Elem())
	case *types.Array:
		ours, ok := ours.(*types.Array)
		return ok && theirs.Len() == ours.Len() && c.same(theirs.Elem(), ours.Elem())
	case *types.Map:
		ours, ok := ours.(*types.Map)
		return ok && c.same(theirs.Key(), ours.Key()) && c.same(theirs.Elem(), ours.Elem())
	case *types.Chan:
		ours, ok := ours.(*types.Chan)
		return ok && theirs.Dir() == ours.Dir() && c.same(theirs.Elem(), ours.Elem())
	case *types.Signature:
		ours, ok := ours.(*types.Signature)
		return ok && theirs.Variadic() == ours.Variadic() &&
			c.sameTuple(theirs.Params(), ours.Params()) && c.sameTuple(theirs.Results(), ours.Results())
	}
	// Types of other packages are identical, because both libraries are loaded together. Unnamed
	// structs and interfaces with types of the reference do not occur.
	return types.Identical(theirs, ours)
}

func (c *comparison) sameTuple(theirs, ours *types.Tuple) bool {
	if theirs.Len() != ours.Len() {
		return false
	}
	for i := range theirs.Len() {
		if !c.same(theirs.At(i).Type(), ours.At(i).Type()) {
			return false
		}
	}
	return true
}
