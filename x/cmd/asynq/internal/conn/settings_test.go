package conn

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/asynq-go/asynq"
)

// load resolves the settings of a command line, an environment and a configuration file.
func load(t *testing.T, file string, env map[string]string, args ...string) (*Config, error) {
	t.Helper()
	home := t.TempDir()
	if file != "" {
		if err := os.WriteFile(filepath.Join(home, ".asynq.yaml"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env = maps.Clone(env)
	if env == nil {
		env = map[string]string{}
	}
	env["HOME"] = home
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	SetByFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(fs, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

// optOf returns the connection options of a command line.
func optOf(t *testing.T, file string, env map[string]string, args ...string) asynq.RedisConnOpt {
	t.Helper()
	c, err := load(t, file, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	opt, err := c.RedisConnOpt()
	if err != nil {
		t.Fatal(err)
	}
	return opt
}

const contexts = `
current_context: prod
uri: flat:1
password: flat-secret
contexts:
  prod:
    uri: prod:2
    password: prod-secret
    db: 2
    timeout: 3s
  full:
    uri: redis://user:uri-secret@full:3/7
  many:
    cluster-addrs: [a:1, "b:2"]
`

func TestPrecedence(t *testing.T) {
	t.Parallel()
	type want struct {
		addr, password string
		db             int
	}
	tests := map[string]struct {
		file string
		env  map[string]string
		args []string
		want want
	}{
		"default":                          {want: want{addr: "127.0.0.1:6379"}},
		"flag":                             {args: []string{"-u", "h:1", "-n", "4", "-p", "x"}, want: want{"h:1", "x", 4}},
		"port is filled in":                {args: []string{"-u", "h"}, want: want{addr: "h:6379"}},
		"socket":                           {args: []string{"-u", "/run/redis.sock"}, want: want{addr: "/run/redis.sock"}},
		"environment":                      {env: map[string]string{"ASYNQ_URI": "e:1", "ASYNQ_DB": "5"}, want: want{addr: "e:1", db: 5}},
		"flag over environment":            {env: map[string]string{"ASYNQ_DB": "5"}, args: []string{"--db", "6"}, want: want{addr: "127.0.0.1:6379", db: 6}},
		"empty variable is unset":          {env: map[string]string{"ASYNQ_DB": ""}, want: want{addr: "127.0.0.1:6379"}},
		"flat keys":                        {file: "uri: flat:1\npassword: secret\ndb: 3\n", want: want{"flat:1", "secret", 3}},
		"flag over flat key":               {file: "uri: flat:1\npassword: secret\n", args: []string{"-u", "h:9"}, want: want{"h:9", "secret", 0}},
		"current context":                  {file: contexts, want: want{"prod:2", "prod-secret", 2}},
		"environment over context":         {file: contexts, env: map[string]string{"ASYNQ_DB": "8"}, want: want{"prod:2", "prod-secret", 8}},
		"context by flag":                  {file: contexts, args: []string{"--context", "full"}, want: want{"full:3", "uri-secret", 7}},
		"context by environment":           {file: contexts, env: map[string]string{"ASYNQ_CONTEXT": "full"}, want: want{"full:3", "uri-secret", 7}},
		"flag over URI":                    {file: contexts, args: []string{"--context", "full", "--db", "1", "-p", "y"}, want: want{"full:3", "y", 1}},
		"URI over environment":             {env: map[string]string{"ASYNQ_DB": "5", "ASYNQ_PASSWORD": "z"}, args: []string{"-u", "redis://:x@h/6"}, want: want{"h:6379", "x", 6}},
		"no password for another server":   {file: contexts, args: []string{"--uri", "other:1"}, want: want{addr: "other:1"}},
		"nor for one in the environment":   {file: contexts, env: map[string]string{"ASYNQ_URI": "other:1"}, want: want{addr: "other:1"}},
		"password without context is kept": {env: map[string]string{"ASYNQ_PASSWORD": "z"}, args: []string{"-u", "h:1"}, want: want{"h:1", "z", 0}},
		"flag over top-level cluster":      {file: "cluster_addrs: a:1,b:1\n", args: []string{"-u", "h:1"}, want: want{addr: "h:1"}},
		"cluster switched off":             {file: "uri: h:1\ncluster: false\ncluster_addrs: a:1,b:1\n", want: want{addr: "h:1"}},
		"empty keys of a file":             {file: "uri: h:1\ncluster_addrs: \"\"\ndb: \"\"\npassword: \"\"\n", want: want{addr: "h:1"}},
		"flag and empty environment":       {env: map[string]string{"ASYNQ_CLUSTER_ADDRS": ""}, args: []string{"-u", "h:1"}, want: want{addr: "h:1"}},
	}
	for name, tt := range tests {
		opt, ok := optOf(t, tt.file, tt.env, tt.args...).(asynq.RedisClientOpt)
		if got := (want{opt.Addr, opt.Password, opt.DB}); !ok || got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
	if opt := optOf(t, contexts, nil).(asynq.RedisClientOpt); opt.ReadTimeout != 3*time.Second {
		t.Errorf("timeout %v; want that of the context", opt.ReadTimeout)
	}
}

func TestServerTypes(t *testing.T) {
	t.Parallel()
	cluster, ok := optOf(t, "", nil, "--cluster", "--cluster-addrs", "a:1, b", "-U", "me", "-p", "x").(asynq.RedisClusterClientOpt)
	if !ok || strings.Join(cluster.Addrs, " ") != "a:1 b:6379" || cluster.Username != "me" || cluster.Password != "x" {
		t.Errorf("cluster: got %+v", cluster)
	}
	if cluster, ok = optOf(t, contexts, nil, "--context", "many").(asynq.RedisClusterClientOpt); !ok || len(cluster.Addrs) != 2 {
		t.Errorf("cluster of a context: got %+v", cluster)
	}
	if cluster, ok = optOf(t, "", nil, "--cluster", "-u", "a:7").(asynq.RedisClusterClientOpt); !ok || cluster.Addrs[0] != "a:7" {
		t.Errorf("cluster by one node: got %+v", cluster)
	}
	sentinel, ok := optOf(t, "", nil, "--sentinel-addrs", "a:1,b:2", "--sentinel-master", "m", "--sentinel-password", "s", "-p", "x", "-n", "3").(asynq.RedisFailoverClientOpt)
	if !ok || sentinel.MasterName != "m" || sentinel.SentinelPassword != "s" || sentinel.Password != "x" || sentinel.DB != 3 {
		t.Errorf("sentinel: got %+v", sentinel)
	}
	sentinel, ok = optOf(t, "", nil, "-u", "redis-sentinel://a,b/2?master=m", "-p", "x").(asynq.RedisFailoverClientOpt)
	if !ok || sentinel.DB != 2 || sentinel.Password != "x" {
		t.Errorf("sentinel by URI: got %+v", sentinel)
	}
}

func TestTLSEnabled(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"--insecure": false, "--tls": true, "--tls --insecure": true, "--tls-server x": true, "-u rediss://h": true, "": false} {
		opt := optOf(t, "", nil, strings.Fields(args)...).(asynq.RedisClientOpt)
		if got := opt.TLSConfig != nil; got != want {
			t.Errorf("%q: TLS %v, want %v", args, got, want)
		}
		if c := opt.TLSConfig; c != nil && c.InsecureSkipVerify != strings.Contains(args, "insecure") {
			t.Errorf("%q: InsecureSkipVerify is %v", args, c.InsecureSkipVerify)
		}
	}
}

// The flag selects the file, otherwise the environment, otherwise it is in the home directory.
func TestConfigFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"a", "b"} {
		paths = append(paths, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte("uri: "+name+"\nother: 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"ASYNQ_CONFIG": paths[0]}
	if opt := optOf(t, "uri: home", env).(asynq.RedisClientOpt); opt.Addr != "a:6379" {
		t.Errorf("address %s; want that of the environment's file", opt.Addr)
	}
	if opt := optOf(t, "uri: home", env, "--config", paths[1]).(asynq.RedisClientOpt); opt.Addr != "b:6379" {
		t.Errorf("address %s; want that of the flag's file", opt.Addr)
	}
	if c, err := load(t, "", env); err != nil || len(c.UnknownKeys) != 1 || c.UnknownKeys[0] != "other" {
		t.Errorf("unknown keys %v, %v; want the key other", c.UnknownKeys, err)
	}
}

func TestRejectedSettings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file string
		env  map[string]string
		args []string
	}{
		"no such context":         {file: contexts, args: []string{"--context", "none"}},
		"unknown key":             {file: "contexts: {x: {urii: y}}"},
		"not YAML":                {file: "password: [secret"},
		"not a mapping":           {file: "secret"},
		"bad number":              {env: map[string]string{"ASYNQ_DB": "one"}},
		"bad boolean":             {file: "tls: perhaps"},
		"bad duration":            {env: map[string]string{"ASYNQ_TIMEOUT": "5"}},
		"bad URI":                 {args: []string{"-u", "redis://:secret@host:port"}},
		"incomplete sentinel":     {args: []string{"--sentinel-addrs", "a:1"}},
		"no sentinels":            {args: []string{"--sentinel-addrs", ",", "--sentinel-master", "m"}},
		"no nodes":                {args: []string{"--cluster-addrs", " , "}},
		"certificate without key": {args: []string{"--tls-cert", "x.pem"}},
		"no CA":                   {args: []string{"--tls-ca", "/does/not/exist"}},
		"no password file":        {args: []string{"--password-file", "/does/not/exist"}},
		"database of a cluster":   {args: []string{"--cluster", "--db", "1"}},
		"missing file":            {args: []string{"--config", "/does/not/exist"}},
		"secret instead of URI":   {args: []string{"-u", "user:secret@host:1:2"}},
	}
	for name, tt := range tests {
		c, err := load(t, tt.file, tt.env, tt.args...)
		if err == nil {
			_, err = c.RedisConnOpt()
		}
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v; want one, without the secret", name, err)
		}
	}
}

func TestPasswordFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if opt := optOf(t, "", map[string]string{"ASYNQ_PASSWORD": "low"}, "--password-file", path).(asynq.RedisClientOpt); opt.Password != "from file" {
		t.Errorf("password %q; want that of the file", opt.Password)
	}
}

// No display of the settings reveals a password.
func TestNoPasswordShown(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"redis://user:secret@host", "redis://:secret@host/1", "redis://user:se/secret@host", "redis-sentinel://h?master=m&sentinel_password=secret&db=1",
		"user:secret@host", "redis://host?password=secret",
	} {
		c, err := load(t, "", nil, "-u", uri, "-p", "secret", "--sentinel-password", "secret")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Settings() {
			if strings.Contains(s.Value, "secret") {
				t.Errorf("%s is shown as %s", uri, s.Value)
			}
		}
		if s := Server(map[string]string{"uri": uri}); strings.Contains(s, "secret") || !strings.Contains(s, "h") {
			t.Errorf("%s is shown as %s", uri, s)
		}
	}
}
