package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Hostile files are rejected with an error, quickly.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	token := func(i int, queues string) string {
		return fmt.Sprintf("- {name: t%d, secret: 0123456789abcdef%d, scopes: [read], queues: %s}\n", i, i, queues)
	}
	var quadratic strings.Builder
	quadratic.WriteString("redis: {uri: 'redis://localhost'}\ntokens:\n- {name: z, secret: zzzzzzzzzzzzzzzzzzz, scopes: [read], queues: &q [" + strings.Repeat("a,", 100000) + "]}\n")
	for i := range 5000 {
		quadratic.WriteString(token(i, "*q"))
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 9))
	}
	for name, c := range map[string]struct{ text, want string }{
		"no names":       {"redis: {uri: 'redis://localhost'}\ntokens: [{secret: 0123456789abcdefg, scopes: [read], queues: ['*']}, {secret: 0123456789abcdefh, scopes: [read], queues: ['*']}]\n", "no name"},
		"quadratic":      {quadratic.String(), "too many values"},
		"bomb":           {bomb + minimal, "unknown key"},
		"cycle":          {"redis: &r {uri: *r}\ntokens: []\n", ""},
		"list in itself": {"redis: {uri: 'redis://localhost'}\ntokens: &t [*t]\n", ""},
		"merge":          {"x: &x {uri: 'redis://localhost'}\nredis: {<<: *x}\n", "<<"},
		"duplicate":      {minimal + "listen: 'a:1'\nlisten: 'b:2'\n", "also in line"},
		"tag of a bool":  {minimal + "only_queues: !!bool yes\nqueues: {a: {}}\n", "not a boolean"},
		"binary":         {strings.Replace(minimal, "'${SHOP_TOKEN}'", "!!binary MDEyMzQ1Njc4OWFiY2RlZjAxMjM=", 1), "!!binary"},
		"own tag":        {minimal + "listen: !exec 'localhost:1'\n", "!exec"},
		"deep":           {strings.Repeat("[", 20000), "YAML"},
		"null":           {"redis: !!null {}\n", ""},
		"path of the UI": {minimal + "ui: {path: \"/a\\tb\", anonymous: viewer}\n", "RootPath"},
		"dots in it":     {minimal + "ui: {path: /a/./b, anonymous: viewer}\n", "RootPath"},
		"NUL":            {minimal + "listen: \"a\\0:1\"\nhosted: {cmd: {commands: {a: {path: \"/bin/a\\0b\"}}}}\n", ""},
		"two documents":  {minimal + "---\n" + minimal, "second YAML document"},
		"no document":    {"# nothing\n", "redis is missing"},
		"directive":      {"%YAML 9.9\n---\n" + minimal, "YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := load(write(t, c.text), env)
			var wrong Errors
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.300v, want %q", err, c.want)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
