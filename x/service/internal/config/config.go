// Package config reads the configuration file of a queue service. It reports all errors at once,
// with line and column.
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
	"github.com/asynq-go/asynq/x/service/internal/api"
	"github.com/asynq-go/asynq/x/service/internal/hosted"
)

// File is a valid configuration. Redis has not been contacted.
type File struct {
	// Path of the file, as passed to Load.
	Path string

	service  service.Config
	hosted   Hosted
	redis    string
	warnings []Issue
}

// Hosted is the configuration of hosted tasks.
type Hosted struct {
	hosted.Config

	// Concurrency is the maximum number of hosted tasks that run at the same time. The default is
	// 10.
	Concurrency int

	// AttemptLog is the number of failed attempts to keep with a hosted task, at most 100. The
	// default is 0: none are kept.
	AttemptLog int

	// ShutdownTimeout is how long a shutdown waits for hosted tasks. Tasks that take longer are
	// stopped and retried by another instance. The default is 30 seconds.
	ShutdownTimeout time.Duration
}

// Service returns the configuration of the service.
func (f *File) Service() service.Config { return f.service }

// Hosted returns the configuration of hosted tasks.
func (f *File) Hosted() Hosted { return f.hosted }

// RedisDigest returns a digest of the Redis connection settings. It does not reveal the password.
func (f *File) RedisDigest() string { return f.redis }

// Warnings returns settings that are valid but probably unintended.
func (f *File) Warnings() []Issue { return f.warnings }

// maxFile is the maximum size of a configuration in bytes.
const maxFile = 1 << 20

// Load reads a file. The error is of type Errors if the contents are invalid.
func Load(name string) (*File, error) { return load(name, os.LookupEnv) }

func load(name string, env func(string) (string, bool)) (*File, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
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
		return nil, Errors{issueAt(name, second.node, "unexpected second YAML document: a configuration is one document")}
	case err != nil:
		return nil, Errors{syntaxError(name, content, err)}
	}
	f := &File{Path: name}
	d.root(f, root)
	if info, err := in.Stat(); err == nil && info.Mode().Perm()&0o004 != 0 {
		for _, n := range d.literal {
			d.warnf(n, "this file contains a secret and is readable by every user: run chmod o=, or use ${NAME} or file:PATH for the secret")
		}
	}
	f.warnings = sortIssues(d.warnings)
	if len(d.errs) > 0 {
		return nil, Errors(sortIssues(d.errs))
	}
	if err := f.service.Check(); err != nil { // errors without a position
		return nil, Errors{issueAt(name, root, err.Error())}
	}
	return f, nil
}

// secondDocument is the error of a file with several YAML documents.
type secondDocument struct{ node *yaml.Node }

func (*secondDocument) Error() string { return "second document" }

// parse returns the root node of the file; a null node if the file is empty.
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
	nodes := d.mapping(n, fields{
		"redis":  func(n *yaml.Node) { noRedis = false; c.RedisConnOpt, f.redis = d.redis(n) },
		"listen": &c.Listen,
		"tls":    func(n *yaml.Node) { tlsNode = n; d.tls(n, &c.TLS) },
		"queues": func(n *yaml.Node) { c.Queues = d.queues(n) },
		"archive": func(n *yaml.Node) {
			if d.archive(n, &c.Archive); api.CheckArchive(c.Archive) != nil {
				d.errorf(n, "%v", api.CheckArchive(c.Archive))
			}
		},
		"only_queues": &c.OnlyQueues,
		"task_queues": func(n *yaml.Node) { c.TaskQueues = d.taskQueues(n) },
		"tokens":      func(n *yaml.Node) { c.Tokens = d.tokens(n) },
		"limits":      func(n *yaml.Node) { d.limits(n, &c.Limits) },
		"hosted":      func(n *yaml.Node) { d.hosted(n, &f.hosted) },
		"ui":          func(*yaml.Node) {}, // read below: it needs the Redis connection
		"metrics":     &metrics,
	})
	c.NoMetrics = !metrics
	if noRedis {
		d.errorf(n, "redis is missing: set it, as in redis: {uri: \"redis://localhost:6379\"}")
	}
	if len(c.Tokens) == 0 && nodes["tokens"] == nil {
		d.errorf(n, "tokens is missing: every request would be rejected")
	} else if len(c.Tokens) == 0 {
		d.errorf(nodes["tokens"], "tokens is empty: every request would be rejected")
	}
	if ui, ok := nodes["ui"]; ok {
		c.UI = d.ui(ui, c.RedisConnOpt)
	}
	d.references(f, nodes)
	d.exposure(f, nodes, tlsNode)
}

func (d *decoder) redis(n *yaml.Node) (opt asynq.RedisConnOpt, digest string) {
	var r redisSettings
	nodes := d.mapping(n, fields{
		"uri": secret{&r.uri}, "username": &r.username, "password": secret{&r.password}, "namespace": &r.namespace,
		"tls": func(n *yaml.Node) { r.tls = d.redisTLS(n) },
	})
	// A URI without a password is not a secret.
	d.literal = dropPlainURI(d.literal, nodes["uri"])
	if nodes["uri"] == nil {
		d.errorf(n, "uri is missing: set it, as in redis://localhost:6379")
		return nil, ""
	}
	if d.hasError(nodes["uri"]) {
		return nil, ""
	}
	opt, at, err := r.connOpt()
	if err != nil {
		if nodes[at] != nil {
			n = nodes[at]
		}
		d.errorf(n, "%v", err)
		return nil, ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", r.uri, r.username, r.password, r.namespace))
	return opt, hex.EncodeToString(sum[:])
}
