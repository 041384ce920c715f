package web

import (
	"reflect"
	"runtime/debug"
	"strings"
)

// version returns the version of this module from the build information, or "(devel)" if unknown,
// for example when the module is replaced by a directory.
func version() string {
	const devel = "(devel)"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	here := reflect.TypeFor[Handler]().PkgPath()
	for _, m := range append(build.Deps, &build.Main) {
		if m.Path != here {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if strings.HasPrefix(m.Version, "v") {
			return m.Version
		}
	}
	return devel
}
