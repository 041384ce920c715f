// Package config reads the configuration of a queue service: one YAML file, of which all that is wrong is told at once, with line and
// column.
package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/service/internal/hosted"
)

// File is a configuration that is right as far as can be told without Redis.
type File struct {
	// Path of the file, as it was given.
	Path string

	service  service.Config
	hosted   Hosted
	redis    string
	warnings []Issue
}

// Hosted is what the file says of hosted tasks.
type Hosted struct {
	hosted.Config

	// Concurrency is how many hosted tasks run at the same time. Default: 10.
	Concurrency int

	// ShutdownTimeout is how long hosted tasks go on when the service ends. Those that take longer are stopped, and run again elsewhere.
	// Default: 30 s.
	ShutdownTimeout time.Duration
}

// Service is the configuration of the service.
func (f *File) Service() service.Config { return f.service }

// Hosted is the configuration of hosted tasks.
func (f *File) Hosted() Hosted { return f.hosted }

// RedisDigest tells files apart that lead to different Redis servers, or to the same in other ways. It tells no password.
func (f *File) RedisDigest() string { return f.redis }

// Warnings are about what works, and is probably not meant.
func (f *File) Warnings() []Issue { return f.warnings }

// maxFile is how long a configuration may be, in bytes.
const maxFile = 1 << 20

// Load reads a file. If there is something wrong with what is in it, the error is an Errors.
func Load(name string) (*File, error) { return load(name, os.LookupEnv) }

func load(name string, env func(string) (string, bool)) (*File, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	if len(content) > maxFile {
		return nil, Errors{{File: name, Line: 1, Column: 1, Text: "the file is longer than 1 MiB"}}
	}
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	d := &decoder{file: name, dir: dir, env: env}
	root, err := parse(content)
	var second *secondDocument
	switch {
	case errors.As(err, &second):
		return nil, Errors{place(name, second.node, "a second document begins here: one file is one configuration")}
	case err != nil:
		return nil, Errors{syntaxError(name, content, err)}
	}
	f := &File{Path: name}
	d.root(f, root)
	if info, err := in.Stat(); err == nil && info.Mode().Perm()&0o004 != 0 {
		for _, n := range d.literal {
			d.warn(n, "a secret stands in a file that every user can read: chmod o= it, or write ${NAME} or file:PATH for the secret")
		}
	}
	f.warnings = inOrder(d.warnings)
	if len(d.errs) > 0 {
		return nil, Errors(inOrder(d.errs))
	}
	if err := f.service.Check(); err != nil { // what has no place of its own
		return nil, Errors{place(name, root, err.Error())}
	}
	return f, nil
}

// secondDocument is the error of a file that has several.
type secondDocument struct{ node *yaml.Node }

func (*secondDocument) Error() string { return "a second document" }

// parse returns the node of the whole file; of an empty one, an empty value.
func parse(content []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}, nil
	case err != nil:
		return nil, err
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		return nil, &secondDocument{&next}
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return doc.Content[0], nil
}

// root reads the whole file.
func (d *decoder) root(f *File, n *yaml.Node) {
	c := &f.service
	var tlsNode *yaml.Node
	noRedis := true
	metrics := true
	there := d.mapping(n, fields{
		"redis":       func(n *yaml.Node) { noRedis = false; c.RedisConnOpt, f.redis = d.redis(n) },
		"listen":      &c.Listen,
		"tls":         func(n *yaml.Node) { tlsNode = n; d.tls(n, &c.TLS) },
		"queues":      func(n *yaml.Node) { c.Queues = d.queues(n) },
		"only_queues": &c.OnlyQueues,
		"task_queues": func(n *yaml.Node) { c.TaskQueues = d.taskQueues(n) },
		"tokens":      func(n *yaml.Node) { c.Tokens = d.tokens(n) },
		"limits":      func(n *yaml.Node) { d.limits(n, &c.Limits) },
		"hosted":      func(n *yaml.Node) { d.hosted(n, &f.hosted) },
		"ui":          func(*yaml.Node) {}, // needs the connection
		"metrics":     &metrics,
	})
	c.NoMetrics = !metrics
	if noRedis {
		d.wrong(n, "redis is missing: say where the queues are, as in redis: {uri: \"redis://localhost:6379\"}")
	}
	if len(c.Tokens) == 0 && there["tokens"] == nil {
		d.wrong(n, "tokens is missing: nobody could do anything")
	} else if len(c.Tokens) == 0 {
		d.wrong(there["tokens"], "there are no tokens: nobody could do anything")
	}
	if ui, ok := there["ui"]; ok {
		c.UI = d.ui(ui, c.RedisConnOpt)
	}
	d.references(f, there)
	d.exposure(f, there, tlsNode)
}

func (d *decoder) redis(n *yaml.Node) (opt asynq.RedisConnOpt, digest string) {
	var r redisSettings
	there := d.mapping(n, fields{
		"uri": secret{&r.uri}, "username": &r.username, "password": secret{&r.password}, "namespace": &r.namespace,
		"tls": func(n *yaml.Node) { r.tls = d.redisTLS(n) },
	})
	// An address is no secret.
	d.literal = dropPlainURI(d.literal, there["uri"])
	if there["uri"] == nil {
		d.wrong(n, "uri is missing: say where Redis is, as in redis://localhost:6379")
		return nil, ""
	}
	if d.isWrong(there["uri"]) {
		return nil, ""
	}
	opt, at, err := r.connOpt()
	if err != nil {
		if there[at] != nil {
			n = there[at]
		}
		d.wrong(n, "%v", err)
		return nil, ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", r.uri, r.username, r.password, r.namespace))
	return opt, hex.EncodeToString(sum[:])
}
