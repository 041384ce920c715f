package config

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/service/internal/api"
	"github.com/asynq-go/asynq/x/web"
)

func (d *decoder) tls(n *yaml.Node, to *service.TLS) {
	nodes := d.mapping(n, fields{"cert": path{&to.CertFile}, "key": path{&to.KeyFile}, "client_ca": path{&to.ClientCAFile}})
	switch {
	case nodes["cert"] == nil || nodes["key"] == nil:
		d.errorf(n, "TLS needs both cert and key")
	default:
		if _, err := tls.LoadX509KeyPair(to.CertFile, to.KeyFile); err != nil {
			d.errorf(nodes["cert"], "cannot load the certificate: %v", err)
		}
	}
	if to.ClientCAFile != "" {
		d.authorities(nodes["client_ca"], to.ClientCAFile)
	}
}

func (d *decoder) limits(n *yaml.Node, to *service.Limits) {
	nodes := d.mapping(n, fields{
		"max_body": bound{size{&to.MaxBody}}, "max_batch": bound{&to.MaxBatch}, "max_take": bound{&to.MaxTake}, "max_wait": bound{&to.MaxWait},
		"max_waiting": bound{&to.MaxWaiting}, "rate_per_token": bound{&to.RatePerToken}, "burst": bound{&to.Burst},
		"lease_duration": bound{&to.LeaseDuration}, "shutdown_timeout": bound{&to.ShutdownTimeout},
		"attempt_log": bound{&to.AttemptLog},
	})
	for key, negative := range map[string]bool{
		"max_batch": to.MaxBatch < 0, "max_take": to.MaxTake < 0, "max_waiting": to.MaxWaiting < 0, "rate_per_token": to.RatePerToken < 0, "burst": to.Burst < 0,
		"attempt_log": to.AttemptLog < 0,
	} {
		if negative {
			d.errorf(nodes[key], "must not be negative")
		}
	}
	if at := nodes["lease_duration"]; to.LeaseDuration > 0 && to.LeaseDuration < service.MinLeaseDuration {
		d.errorf(at, "%s is too short: must be at least %v, so that workers can extend their leases", at.Value, service.MinLeaseDuration)
	}
	if to.MaxTake > 500 {
		d.errorf(nodes["max_take"], "must be at most 500")
	}
}

// documentedPrefix is the prefix of the secrets in the documentation.
const documentedPrefix = "replace-this-"

// tokens reads the tokens. Errors contain the names of tokens but never their secrets.
func (d *decoder) tokens(n *yaml.Node) (tokens []service.Token) {
	names, sums := make(map[string]int), make(map[string]string)
	d.list(n, func(_ int, n *yaml.Node) {
		var t service.Token
		var fromEnv, fromFile string
		var scopes []string
		before := len(d.errs)
		nodes := d.mapping(n, fields{
			"name": &t.Name, "secret": secret{&t.Secret}, "sha256": &t.SHA256, "env": &fromEnv, "file": &fromFile,
			"scopes": &scopes, "queues": &t.Queues, "rate": bound{&t.Rate}, "burst": bound{&t.Burst},
		})
		sources := 0
		for _, key := range []string{"secret", "sha256", "env", "file"} {
			if nodes[key] != nil {
				sources++
			}
		}
		switch {
		case sources > 1:
			d.errorf(n, "more than one of secret, sha256, env and file is set: keep one")
		case sources == 0:
			d.errorf(n, "the secret is missing: set secret, sha256, env or file")
		case fromEnv != "":
			t.Secret = d.secretEnv(nodes["env"], fromEnv)
		case fromFile != "":
			t.Secret = d.secretFile(nodes["file"], fromFile)
		}
		for _, s := range scopes {
			t.Scopes = append(t.Scopes, service.Scope(s))
		}
		tokens = append(tokens, t)
		if len(d.errs) > before {
			return // Check would repeat the errors
		}
		d.reportJoined(n, t.Check())
		if strings.HasPrefix(t.Secret, documentedPrefix) {
			d.warnf(n, "the token %q has a secret from the documentation: replace it", t.Name)
		}
		if line, twice := names[t.Name]; twice {
			d.errorf(cmp.Or(nodes["name"], n), "duplicate token name, also in line %d: logs need unique names", line)
		}
		names[t.Name] = n.Line
		sum := strings.ToLower(t.SHA256)
		if t.Secret != "" {
			digest := sha256.Sum256([]byte(t.Secret))
			sum = hex.EncodeToString(digest[:])
		}
		if other, twice := sums[sum]; twice {
			d.errorf(n, "the token %q has the same secret: each token needs its own", other)
		}
		sums[sum] = t.Name
	})
	return tokens
}

// reportJoined reports each of several reportJoined errors.
func (d *decoder) reportJoined(n *yaml.Node, err error) {
	if err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { // only the outermost error may be joined
		for _, err := range many.Unwrap() {
			d.reportJoined(n, err)
		}
		return
	}
	d.errorf(n, "%v", err)
}

var roles = map[string]web.Role{"none": web.None, "viewer": web.Viewer, "operator": web.Operator, "admin": web.Admin}

// ui reads the settings of the web UI: true or false, or a mapping. It returns nil if the web UI is
// disabled.
func (d *decoder) ui(n *yaml.Node, redis asynq.RedisConnOpt) *web.Options {
	o := &web.Options{RedisConnOpt: redis, RootPath: "/ui"}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		var on bool
		if d.value(n, &on); !on {
			return nil
		}
		return o
	}
	before := len(d.errs)
	nodes := d.mapping(n, fields{
		"path": &o.RootPath, "read_only": &o.ReadOnly, "prometheus": &o.PrometheusAddress, "origins": &o.Origins, "token": secret{&o.Token},
		"anonymous": func(n *yaml.Node) { o.Anonymous = d.role(n) },
		"users": func(n *yaml.Node) {
			d.list(n, func(_ int, n *yaml.Node) {
				var u web.User
				d.mapping(n, fields{"name": &u.Name, "password": secret{&u.Password}, "role": func(n *yaml.Node) { u.Role = d.role(n) }})
				o.Users = append(o.Users, u)
			})
		},
	})
	if at := nodes["path"]; at != nil && api.Reserved(o.RootPath) {
		d.errorf(at, "the service itself uses the path %s: choose another one, such as /ui", o.RootPath)
	}
	if len(d.errs) == before && redis != nil {
		d.reportJoined(n, o.Check())
	}
	return o
}

func (d *decoder) role(n *yaml.Node) web.Role {
	var name string
	d.value(n, &name)
	role, ok := roles[name]
	if !ok {
		d.errorf(n, "unknown role %.50q: use none, viewer, operator or admin", name)
	}
	return role
}
