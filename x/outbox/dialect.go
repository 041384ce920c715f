package outbox

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is the SQL of a database.
type Dialect int

// The dialects.
const (
	SQLite   Dialect = iota + 1 // SQLite 3.35 or newer
	Postgres                    // Postgres 10 or newer
	MySQL                       // MySQL 8, MariaDB 10.6 or newer
)

var dialectNames = map[Dialect]string{SQLite: "sqlite", Postgres: "postgres", MySQL: "mysql"}

// String returns the name of the dialect in lower case.
func (d Dialect) String() string {
	if name, ok := dialectNames[d]; ok {
		return name
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

// ParseDialect returns the dialect with a name: sqlite, postgres or mysql. Other common names are
// accepted: sqlite3, postgresql, pgx, mariadb.
func ParseDialect(name string) (Dialect, error) {
	switch strings.ToLower(name) {
	case "sqlite", "sqlite3":
		return SQLite, nil
	case "postgres", "postgresql", "pgx":
		return Postgres, nil
	case "mysql", "mariadb":
		return MySQL, nil
	}
	return 0, fmt.Errorf("outbox: unknown dialect %q: want sqlite, postgres or mysql", name)
}

// validate panics if there is no such dialect.
func (d Dialect) validate() {
	if _, ok := dialectNames[d]; !ok {
		panic("outbox: unknown dialect " + d.String() + ": use outbox.SQLite, Postgres or MySQL")
	}
}

// rebind replaces the placeholders ? by those of the dialect.
func (d Dialect) rebind(query string) string {
	if d != Postgres {
		return query
	}
	var b strings.Builder
	n := 0
	for _, c := range query {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// in returns n placeholders for a list, and the arguments: IDs, repeated to the next power of two,
// so that drivers that keep prepared statements see few different ones.
func in(ids []string) (placeholders string, args []any) {
	n := 1
	for n < len(ids) {
		n *= 2
	}
	args = make([]any, n)
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)]
	}
	return strings.TrimSuffix(strings.Repeat("?, ", n), ", "), args
}
