package outbox

import "strings"

// Migration is one change of the schema, for the migration tool of the program. Each entry of Up
// and Down is one statement, without a semicolon. They can be repeated.
type Migration struct {
	Version int    // 1 for the first one
	Name    string // for file names, as in 0001_create_outbox
	Up      []string
	Down    []string
}

// Schema returns all migrations, oldest first. A release that changes the tables adds one. The
// options are those of New that name the tables. It panics if an argument is invalid.
func Schema(d Dialect, opts ...Option) []Migration {
	d.validate()
	names := newSettings(opts)
	replacer := strings.NewReplacer("{outbox}", names.outbox(), "{inbox}", names.inbox())
	replaced := func(templates ...string) (statements []string) {
		for _, t := range templates {
			statements = append(statements, replacer.Replace(t))
		}
		return statements
	}
	return []Migration{{
		Version: 1,
		Name:    "create_outbox",
		Up:      replaced(createTables[d]...),
		Down:    replaced("DROP TABLE IF EXISTS {outbox}", "DROP TABLE IF EXISTS {inbox}"),
	}}
}

// createTables has the statements of the first migration. Times are microseconds since 1970, zero
// means never. Types and headers are any UTF-8. The IDs of the inbox are hashes, because databases
// limit the length of keys, and MySQL ignores case in texts.
var createTables = map[Dialect][]string{
	SQLite: {
		`CREATE TABLE IF NOT EXISTS {outbox} (
	id            TEXT    NOT NULL PRIMARY KEY,
	type          TEXT    NOT NULL,
	payload       BLOB    NOT NULL,
	headers       TEXT    NOT NULL,
	options       TEXT    NOT NULL,
	created_at    INTEGER NOT NULL,
	claimed_by    TEXT    NOT NULL DEFAULT '',
	claimed_until INTEGER NOT NULL DEFAULT 0,
	attempts      INTEGER NOT NULL DEFAULT 0,
	first_sent_at INTEGER NOT NULL DEFAULT 0,
	failed_at     INTEGER NOT NULL DEFAULT 0,
	error         TEXT    NOT NULL DEFAULT ''
)`,
		`CREATE INDEX IF NOT EXISTS {outbox}_waiting ON {outbox} (id) WHERE failed_at = 0`,
		`CREATE INDEX IF NOT EXISTS {outbox}_failed ON {outbox} (id) WHERE failed_at > 0`,
		`CREATE TABLE IF NOT EXISTS {inbox} (
	id         TEXT    NOT NULL PRIMARY KEY,
	created_at INTEGER NOT NULL
) WITHOUT ROWID`,
		`CREATE INDEX IF NOT EXISTS {inbox}_created_at ON {inbox} (created_at)`,
	},
	Postgres: {
		`CREATE TABLE IF NOT EXISTS {outbox} (
	id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	type          TEXT    NOT NULL,
	payload       BYTEA   NOT NULL,
	headers       TEXT    NOT NULL,
	options       TEXT    NOT NULL,
	created_at    BIGINT  NOT NULL,
	claimed_by    TEXT    NOT NULL DEFAULT '',
	claimed_until BIGINT  NOT NULL DEFAULT 0,
	attempts      INTEGER NOT NULL DEFAULT 0,
	first_sent_at BIGINT  NOT NULL DEFAULT 0,
	failed_at     BIGINT  NOT NULL DEFAULT 0,
	error         TEXT    NOT NULL DEFAULT ''
)`,
		`CREATE INDEX IF NOT EXISTS {outbox}_waiting ON {outbox} (id) WHERE failed_at = 0`,
		`CREATE INDEX IF NOT EXISTS {outbox}_failed ON {outbox} (id) WHERE failed_at > 0`,
		`CREATE TABLE IF NOT EXISTS {inbox} (
	id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	created_at BIGINT NOT NULL
)`,
		`CREATE INDEX IF NOT EXISTS {inbox}_created_at ON {inbox} (created_at)`,
	},
	MySQL: {
		`CREATE TABLE IF NOT EXISTS {outbox} (
	id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
	type          TEXT         NOT NULL,
	payload       LONGBLOB     NOT NULL,
	headers       LONGTEXT     NOT NULL,
	options       LONGTEXT     NOT NULL,
	created_at    BIGINT       NOT NULL,
	claimed_by    VARCHAR(128) NOT NULL DEFAULT '',
	claimed_until BIGINT       NOT NULL DEFAULT 0,
	attempts      INT          NOT NULL DEFAULT 0,
	first_sent_at BIGINT       NOT NULL DEFAULT 0,
	failed_at     BIGINT       NOT NULL DEFAULT 0,
	error         VARCHAR(2048) NOT NULL DEFAULT '',
	KEY {outbox}_failed_at (failed_at, id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
		`CREATE TABLE IF NOT EXISTS {inbox} (
	id         CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
	created_at BIGINT NOT NULL,
	KEY {inbox}_created_at (created_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
	},
}
