package cli

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/outbox"
)

// newOutboxDB creates a SQLite database with the tables of an outbox and returns its URL.
func newOutboxDB(t *testing.T) (url string, db *sql.DB) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop 100%#.db")
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "#", "%23").Replace(file)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, m := range outbox.Schema(outbox.SQLite) {
		for _, statement := range m.Up {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	return "sqlite:" + file, db
}

// addFailedRow adds a failed row.
func addFailedRow(t *testing.T, db *sql.DB, id, typename, failure string) {
	t.Helper()
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC).UnixMicro()
	_, err := db.Exec(`INSERT INTO asynq_outbox (id, type, payload, headers, options, created_at, attempts, failed_at, error)
		VALUES (?, ?, ?, '{"h":"v"}', '["Queue(\"mail\")"]', ?, 2, ?, ?)`, id, typename, []byte(`{"n":1}`), at, at+1_000_000, failure)
	if err != nil {
		t.Fatal(err)
	}
}

func TestOutboxRows(t *testing.T) {
	w := newWorld(t)
	url, db := newOutboxDB(t)
	w.env["ASYNQ_DATABASE"] = url
	w.env["TZ"] = "UTC"
	for _, id := range []string{"row-1", "row-2", "row-3"} {
		addFailedRow(t, db, id, "email:welcome", "task already exists")
	}
	if err := outbox.New(outbox.SQLite).Enqueue(t.Context(), db, asynq.NewTask("t", nil)); err != nil {
		t.Fatal(err)
	}
	stats := w.run("outbox", "stats", "-o", "template={{.waiting}} {{.claimed}} {{.failed}}")
	if stats.out != "1 0 3\n" || stats.code != ExitDone {
		t.Errorf("stats: %+v", stats)
	}
	if r := w.run("outbox", "stats"); !strings.HasPrefix(r.out, "waiting  1\nclaimed  0\nfailed   3\nlag      ") {
		t.Errorf("stats: %+v", r)
	}
	w.golden("outbox_failed_json", w.run("outbox", "failed", "-o", "json", "--filter", "id:row-1"))
	w.golden("outbox_failed", w.run("outbox", "failed", "-o", "template={{.id}} {{.type}} {{.error}}"))
	if r := w.run("outbox", "failed", "-o", "wide"); !strings.Contains(r.out, `Queue("mail")`) || strings.Count(r.out, "\n") != 4 {
		t.Errorf("failed rows: %+v", r)
	}
	w.golden("outbox_retry", w.run("outbox", "retry", "row-1", "row-9", "--yes"))
	w.golden("outbox_discard_unconfirmed", w.run("outbox", "discard", "--all"))
	w.golden("outbox_discard_dry", w.run("outbox", "discard", "--all", "--dry-run"))
	w.golden("outbox_discard", w.run("outbox", "discard", "--all", "--yes"))
	stats = w.run("outbox", "stats", "-o", "template={{.waiting}} {{.failed}}")
	if stats.out != "2 0\n" {
		t.Errorf("stats: %+v", stats)
	}
	w.golden("outbox_retry_nothing", w.run("outbox", "retry"))
}

func TestOutboxSchema(t *testing.T) {
	w := newWorld(t)
	w.golden("outbox_schema", w.run("outbox", "schema", "--dialect", "postgres"))
	w.golden("outbox_schema_down", w.run("outbox", "schema", "--dialect", "MariaDB", "--down", "--table-prefix", "shop_"))
	w.golden("outbox_schema_unknown", w.run("outbox", "schema", "--dialect", "oracle"))
	w.golden("outbox_schema_prefix", w.run("outbox", "schema", "--dialect", "mysql", "--table-prefix", "a-b"))
}

func TestOutboxRelay(t *testing.T) {
	w := newWorld(t)
	url, db := newOutboxDB(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	serving, code := make(chan struct{}), make(chan int, 1)
	stderr := newSignalWriter("/metrics\n", 1, sync.OnceFunc(func() { close(serving) }))
	go func() {
		args := []string{"outbox", "relay", "--uri", redisAddr, "--namespace", w.namespace, "--database", url, "--poll-interval", "10ms", "--metrics", "127.0.0.1:0"}
		code <- Run(ctx, args, Streams{In: strings.NewReader(""), Out: io.Discard, Err: stderr, Env: func(string) (string, bool) { return "", false }})
	}()
	select {
	case <-serving:
	case c := <-code:
		t.Fatalf("the relay exited with %d: %s", c, stderr)
	}
	if err := outbox.New(outbox.SQLite).Enqueue(ctx, db, asynq.NewTask("t", nil), asynq.Queue("mail")); err != nil {
		t.Fatal(err)
	}
	metrics := regexp.MustCompile(`http://\S+`).FindString(stderr.String())
	proctest.Eventually(t, "the metrics show the row", func() bool {
		code, body := fetch(t, metrics)
		return code == http.StatusOK && strings.Contains(body, "asynq_outbox_relayed_total 1\n") && strings.Contains(body, "asynq_outbox_waiting 0\n")
	})
	if tasks, err := w.inspector.ListPendingTasks("mail"); err != nil || len(tasks) != 1 {
		t.Errorf("%d pending tasks, %v; want 1", len(tasks), err)
	}
	cancel()
	if c := <-code; c != ExitDone || !strings.Contains(stderr.String(), "relaying tasks from sqlite") {
		t.Errorf("exit code %d, standard error %s", c, stderr)
	}
}

func TestOutboxErrors(t *testing.T) {
	w := newWorld(t)
	url, _ := newOutboxDB(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"stats", ExitUsage, "use --database or ASYNQ_DATABASE"},
		{"stats -d oracle://host/name", ExitUsage, "unknown kind of database"},
		{"stats -d sqlite:", ExitUsage, "name of the file is missing"},
		{"stats -d sqlite:/nowhere/none.db", ExitFailed, `unable to open database file "/nowhere/none.db": no such file`},
		{"retry -d " + url + " --all", ExitDone, "no failed rows"},
		{"schema", ExitUsage, "--dialect is required"},
		{"stats -d postgres://user:secret@host:99999999/name", ExitUsage, "the URL of Postgres is invalid"},
		{"stats -d mysql://user:secret@/name", ExitUsage, "the URL of MySQL is invalid"},
		{"stats -d mysql://user:secret@host/name?timeout=x", ExitUsage, "the URL of MySQL is invalid"},
		{"stats -d mysql://user:secret@127.0.0.1:1/name", ExitFailed, "refused"},
		{"stats -d " + url + " --table-prefix none_", ExitFailed, "no such table: none_outbox"},
		{"relay -d " + url + " --table-prefix none_", ExitFailed, "no such table: none_outbox"},
		{"relay -d " + url + " --poll-interval 0s", ExitUsage, "--poll-interval"},
		{"relay -d " + url + " --batch-size 0", ExitUsage, "--batch-size"},
		{"relay -d " + url + " --idempotency-ttl 1m", ExitUsage, "--idempotency-ttl"},
		{"retry -d " + url + " --all x", ExitUsage, "name the rows, or use --all"},
	} {
		args := append([]string{"outbox"}, splitArgs(c.args, url)...)
		r := w.run(args...)
		if r.code != c.code || !strings.Contains(r.err, c.want) || strings.Contains(r.err, "secret") || strings.Contains(r.err, ": outbox: ") || strings.Contains(r.err, "Redis") {
			t.Errorf("%s: %+v; want code %d and %q, without the password", c.args, r, c.code, c.want)
		}
	}
}

// splitArgs splits at spaces, except within the URL of the database.
func splitArgs(text, url string) []string {
	args := strings.Fields(strings.ReplaceAll(text, url, "URL"))
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "URL", url)
	}
	return args
}

func TestParseDatabase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]database{
		"postgres://u:p@h/n?sslmode=disable":  {outbox.Postgres, "pgx", "postgres://u:p@h/n?sslmode=disable"},
		"mysql://u:p%40:%2F@h/n":              {outbox.MySQL, "mysql", "u:p@:/@tcp(h:3306)/n"},
		"mariadb://u@h:3307/n?tls=true&loc=x": {},
		"mariadb://u@[::1]:3307/n?tls=true":   {outbox.MySQL, "mysql", "u@tcp([::1]:3307)/n?tls=true"},
		"sqlite:a b.db":                       {outbox.SQLite, "sqlite", "file:a b.db?mode=rw&_pragma=busy_timeout(10000)&_txlock=immediate"},
		"sqlite:///a.db?cache=shared":         {outbox.SQLite, "sqlite", "file:/a.db?mode=rw&_pragma=busy_timeout(10000)&_txlock=immediate&cache=shared"},
	} {
		got, err := parseDatabase(text)
		if want == (database{}) {
			if err == nil {
				t.Errorf("%s: %+v, want an error", text, *got)
			}
			continue
		}
		if err != nil || *got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}
