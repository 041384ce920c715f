package ui

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// The parts of the bundles, in order. Modules come after those that they import.
var (
	styleParts  = []string{"vendor/uplot", "css/tokens", "css/layout", "css/parts", "css/tables", "css/forms", "css/tasks", "css/insight", "css/infra"}
	scriptParts = []string{"question", "times", "charts", "keys", "select", "search", "tabs", "hold", "live", "main"}
)

// The names of the bundles.
const (
	styleBundle  = "app.css"
	scriptBundle = "app.js"
)

// bundleStyles joins the styles to one file, in which address replaces the names of other files.
func bundleStyles(files fs.FS, address func(name string) string) []byte {
	var b strings.Builder
	for _, name := range styleParts {
		b.Write(mustRead(files, name+".css"))
		b.WriteByte('\n')
	}
	return []byte(relative.ReplaceAllStringFunc(b.String(), func(s string) string {
		return `url("../` + address(strings.TrimSuffix(strings.TrimPrefix(s, `url("../`), `")`)) + `")`
	}))
}

// relative matches a reference of a style to another file.
var relative = regexp.MustCompile(`url\("\.\./[^"]+"\)`)

// bundleScripts joins htmx and the modules to one script. Each module becomes a function that
// returns its exports.
func bundleScripts(files fs.FS) []byte {
	var b strings.Builder
	b.Write(mustRead(files, "vendor/htmx.min.js"))
	b.WriteString("\n;(() => {\n\"use strict\";\n")
	for _, name := range scriptParts {
		text := string(mustRead(files, "js/"+name+".js"))
		var exports []string
		for _, m := range exported.FindAllStringSubmatch(text, -1) {
			exports = append(exports, m[2])
		}
		text = exported.ReplaceAllString(text, "$1$2")
		text = imported.ReplaceAllString(text, "const {$1} = modules.$2;")
		if strings.Contains(text, "\nimport ") || strings.Contains(text, "\nexport ") {
			panic("ui: the bundle cannot hold an import or export of " + name) // tests detect it
		}
		fmt.Fprintf(&b, "modules.%s = (() => {\n%s\nreturn { %s };\n})();\n", name, text, strings.Join(exports, ", "))
	}
	b.WriteString("})();\n")
	return []byte(strings.Replace(b.String(), "\"use strict\";\n", "\"use strict\";\nconst modules = {};\n", 1))
}

var (
	imported = regexp.MustCompile(`(?m)^import \{([^}]*)\} from "\./(\w+)\.js";$`)
	exported = regexp.MustCompile(`(?m)^export ((?:async )?(?:function|const|let) )(\w+)`)
)

func mustRead(files fs.FS, name string) []byte {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return content
}
