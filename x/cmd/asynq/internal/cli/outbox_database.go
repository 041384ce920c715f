package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // driver pgx
	_ "modernc.org/sqlite"             // driver sqlite

	"github.com/asynq-go/asynq/x/outbox"
)

// database is a database of the flag --database.
type database struct {
	dialect     outbox.Dialect
	driver, dsn string
}

// parseDatabase parses the URL of a database. Errors do not repeat it: it may contain a password.
func parseDatabase(text string) (*database, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	switch scheme {
	case "":
		return nil, usage("use --database or ASYNQ_DATABASE to name the database: postgres://user@host/name, mysql://user@host/name or sqlite:FILE")
	case "postgres", "postgresql":
		if _, err := pgx.ParseConfig(text); err != nil {
			return nil, usage("--database: the URL of Postgres is invalid: want postgres://user:password@host:5432/name?sslmode=verify-full")
		}
		return &database{outbox.Postgres, "pgx", text}, nil
	case "mysql", "mariadb":
		return parseMySQL(text)
	case "sqlite", "sqlite3", "file":
		file, query, _ := strings.Cut(rest, "?")
		file = strings.TrimPrefix(file, "//")
		if file == "" {
			return nil, usage("--database: the name of the file is missing: want sqlite:FILE")
		}
		// A missing file is an error, not a new database. The escaped characters have a meaning in
		// a URI.
		file = strings.NewReplacer("%", "%25", "#", "%23").Replace(file)
		settings := "mode=rw&_pragma=busy_timeout(10000)&_txlock=immediate"
		if query != "" {
			settings += "&" + query
		}
		return &database{outbox.SQLite, "sqlite", "file:" + file + "?" + settings}, nil
	}
	return nil, usage("--database: unknown kind of database: want postgres://user@host/name, mysql://user@host/name or sqlite:FILE")
}

// fileError returns an error if the file of a SQLite database is missing. That of the driver does
// not name the file.
func (d *database) fileError() error {
	if d.dialect != outbox.SQLite {
		return nil
	}
	file, _, _ := strings.Cut(strings.TrimPrefix(d.dsn, "file:"), "?")
	file = strings.NewReplacer("%25", "%", "%23", "#").Replace(file)
	_, err := os.Stat(file)
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("--database: unable to open database file %q: %w", file, path.Err)
	}
	return err
}

// parseMySQL converts a URL to the form of the driver.
func parseMySQL(text string) (*database, error) {
	invalid := usage("--database: the URL of MySQL is invalid: want mysql://user:password@host:3306/name?tls=true")
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
		return nil, invalid
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	if u.Port() == "" {
		cfg.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	dsn := cfg.FormatDSN()
	if u.RawQuery != "" {
		separator := "?"
		if strings.Contains(dsn[strings.LastIndex(dsn, "/"):], "?") {
			separator = "&"
		}
		dsn += separator + u.RawQuery
	}
	if _, err := mysql.ParseDSN(dsn); err != nil {
		return nil, invalid
	}
	return &database{outbox.MySQL, "mysql", dsn}, nil
}
