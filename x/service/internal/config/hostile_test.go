package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whatever is in a file, it is told what is wrong with it, soon.
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
		"bomb":           {bomb + least, "means nothing here"},
		"cycle":          {"redis: &r {uri: *r}\ntokens: []\n", ""},
		"list in itself": {"redis: {uri: 'redis://localhost'}\ntokens: &t [*t]\n", ""},
		"merge":          {"x: &x {uri: 'redis://localhost'}\nredis: {<<: *x}\n", "<<"},
		"duplicate":      {least + "listen: 'a:1'\nlisten: 'b:2'\n", "already"},
		"tag of a bool":  {least + "only_queues: !!bool yes\nqueues: {a: {}}\n", "neither true nor false"},
		"binary":         {strings.Replace(least, "'${SHOP_TOKEN}'", "!!binary MDEyMzQ1Njc4OWFiY2RlZjAxMjM=", 1), "!!binary"},
		"own tag":        {least + "listen: !exec 'localhost:1'\n", "!exec"},
		"deep":           {strings.Repeat("[", 20000), "YAML"},
		"null":           {"redis: !!null {}\n", ""},
		"path of the UI": {least + "ui: {path: \"/a\\tb\", anonymous: viewer}\n", "RootPath"},
		"dots in it":     {least + "ui: {path: /a/./b, anonymous: viewer}\n", "RootPath"},
		"NUL":            {least + "listen: \"a\\0:1\"\nhosted: {cmd: {commands: {a: {path: \"/bin/a\\0b\"}}}}\n", ""},
		"two documents":  {least + "---\n" + least, "second document"},
		"no document":    {"# nothing\n", "redis is missing"},
		"directive":      {"%YAML 9.9\n---\n" + least, "YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := load(write(t, c.text), env)
			var wrong Errors
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.300v, want %q", err, c.want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
