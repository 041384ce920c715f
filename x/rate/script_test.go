package rate

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	headerValue = regexp.MustCompile(`(?m)^-- (KEYS|ARGV)\[(\d+)\] +\S`)
	headerWord  = regexp.MustCompile(`(?m)^-- (RETURN|BOUND) +\S`)
	usedValue   = regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`)
	comment     = regexp.MustCompile(`(?m)^ *--.*\n`)
)

// Each script uses exactly the keys and arguments that its header declares.
func TestScriptHeaders(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ text, keys, args string }{
		"acquire": {acquireText, "1", "1 2 3 4"}, // as Semaphore.acquire calls it
		"take":    {takeText, "1", "1 2 3 4 5"},  // as Limiter.take does
	} {
		header, _, _ := strings.Cut(want.text, "\n\n")
		if n := len(headerWord.FindAllString(header, -1)); n != 2 {
			t.Errorf("%s: the header must say what it returns, and its bound", name)
		}
		declared := values(headerValue, header)
		if used := values(usedValue, comment.ReplaceAllString(want.text, "")); used != declared {
			t.Errorf("%s: the header declares %q, the script uses %q", name, declared, used)
		}
		if calls := [2]string{want.keys, want.args}; declared != calls {
			t.Errorf("%s: the header declares %q, calls have %q", name, declared, calls)
		}
	}
}

// values returns the indexes of KEYS and ARGV that a pattern finds.
func values(pattern *regexp.Regexp, text string) (found [2]string) {
	seen := make(map[string]bool)
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		seen[m[1]+m[2]] = true
	}
	for which, name := range []string{"KEYS", "ARGV"} {
		var indexes []string
		for i := 1; i < 10; i++ {
			if seen[name+strconv.Itoa(i)] {
				indexes = append(indexes, strconv.Itoa(i))
			}
		}
		found[which] = strings.Join(indexes, " ")
	}
	return found
}

// The keys are those in docs/WIRE.md.
func TestKeysAreDocumented(t *testing.T) {
	t.Parallel()
	wire, err := os.ReadFile("../../docs/WIRE.md")
	if err != nil {
		t.Fatal(err)
	}
	conn := connection{namespace: "N"}
	for key, kind := range map[string]string{
		conn.semaphoreKey("<scope>"):       "ZSET",
		conn.bucketKey("<scope>", "<key>"): "STRING",
	} {
		if row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(key) + "`( \\|)? " + kind + " \\|"); !row.Match(wire) {
			t.Errorf("docs/WIRE.md has no row for %s, a %s", key, kind)
		}
	}
	if key := (connection{namespace: "asynq"}).semaphoreKey("a:b {c}"); key != "asynq:sema:a:b {c}" {
		t.Errorf("the key of a semaphore is %q: incompatible with other libraries", key)
	}
}

func FuzzBucketKey(f *testing.F) {
	f.Add("a", "b:c", "a:b", "c")
	f.Add("a%3A", "b", "a:", "b")
	f.Add("%", "", "%25", "")
	conn := connection{namespace: "asynq"}
	f.Fuzz(func(t *testing.T, scope1, key1, scope2, key2 string) {
		same := scope1 == scope2 && key1 == key2
		if a, b := conn.bucketKey(scope1, key1), conn.bucketKey(scope2, key2); (a == b) != same {
			t.Errorf("%q %q is %q, %q %q is %q", scope1, key1, a, scope2, key2, b)
		}
	})
}

// No two pairs of scope and key share a bucket, not even crafted ones.
func TestBucketKeysDiffer(t *testing.T) {
	t.Parallel()
	conn := connection{namespace: "asynq"}
	piece := rapid.StringMatching(`[a:%23A5]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := [2]string{piece.Draw(t, "scope"), piece.Draw(t, "key")}, [2]string{piece.Draw(t, "scope"), piece.Draw(t, "key")}
		if (conn.bucketKey(a[0], a[1]) == conn.bucketKey(b[0], b[1])) != (a == b) {
			t.Fatalf("%q and %q share a bucket", a, b)
		}
	})
}

// Any scope and key are valid.
func FuzzScopes(f *testing.F) {
	p, _ := stopped(f)
	conn := connect(p.opt)
	f.Cleanup(func() { _ = conn.close() })
	for _, s := range []string{"a", "{", "}", "{}", "a\x00b", "\xff", "%s%d", "line\nbreak", strings.Repeat("x", 10_000), "*?[a]", " "} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, scope, key string) {
		if strings.TrimSpace(scope) == "" {
			return
		}
		b, err := PerHour(1).bucket()
		if err != nil {
			t.Fatal(err)
		}
		p.mini.FlushAll()
		l := &Limiter{conn: conn, scope: scope, bucket: b}
		if first, second := l.allow(t, key, 1), l.allow(t, key, 1); !first.Allowed || second.Allowed {
			t.Errorf("the first call: %+v, the second: %+v", first, second)
		}
		s := &Semaphore{conn: conn, key: conn.semaphoreKey(scope), max: 1}
		if first, second := s.acquires(t, key, 60), s.acquires(t, key+"x", 60); !first || second {
			t.Errorf("the first call: %t, the second: %t", first, second)
		}
		if err := s.release(t.Context(), key); err != nil {
			t.Error(err)
		}
	})
}
