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
	there := d.mapping(n, fields{"cert": path{&to.CertFile}, "key": path{&to.KeyFile}, "client_ca": path{&to.ClientCAFile}})
	switch {
	case there["cert"] == nil || there["key"] == nil:
		d.wrong(n, "TLS needs both a certificate and its key: give cert and key")
	default:
		if _, err := tls.LoadX509KeyPair(to.CertFile, to.KeyFile); err != nil {
			d.wrong(there["cert"], "the certificate cannot be used: %v", err)
		}
	}
	if to.ClientCAFile != "" {
		d.authorities(there["client_ca"], to.ClientCAFile)
	}
}

func (d *decoder) limits(n *yaml.Node, to *service.Limits) {
	there := d.mapping(n, fields{
		"max_body": bound{size{&to.MaxBody}}, "max_batch": bound{&to.MaxBatch}, "max_take": bound{&to.MaxTake}, "max_wait": bound{&to.MaxWait},
		"max_waiting": bound{&to.MaxWaiting}, "rate_per_token": bound{&to.RatePerToken}, "burst": bound{&to.Burst},
		"lease_duration": bound{&to.LeaseDuration}, "shutdown_timeout": bound{&to.ShutdownTimeout},
	})
	for key, negative := range map[string]bool{
		"max_batch": to.MaxBatch < 0, "max_take": to.MaxTake < 0, "max_waiting": to.MaxWaiting < 0, "rate_per_token": to.RatePerToken < 0, "burst": to.Burst < 0,
	} {
		if negative {
			d.wrong(there[key], "it is less than zero")
		}
	}
	if at := there["lease_duration"]; to.LeaseDuration > 0 && to.LeaseDuration < service.MinLeaseDuration {
		d.wrong(at, "%s is too short: workers must get round to extending, so at least %v", at.Value, service.MinLeaseDuration)
	}
	if to.MaxTake > 500 {
		d.wrong(there["max_take"], "at most 500 tasks can be taken at once")
	}
}

// tokens reads the tokens. Errors tell their names, never their secrets.
func (d *decoder) tokens(n *yaml.Node) (tokens []service.Token) {
	names, sums := make(map[string]int), make(map[string]string)
	d.list(n, func(_ int, n *yaml.Node) {
		var t service.Token
		var fromEnv, fromFile string
		var scopes []string
		before := len(d.errs)
		there := d.mapping(n, fields{
			"name": &t.Name, "secret": secret{&t.Secret}, "sha256": &t.SHA256, "env": &fromEnv, "file": &fromFile,
			"scopes": &scopes, "queues": &t.Queues, "rate": bound{&t.Rate}, "burst": bound{&t.Burst},
		})
		sources := 0
		for _, key := range []string{"secret", "sha256", "env", "file"} {
			if there[key] != nil {
				sources++
			}
		}
		switch {
		case sources > 1:
			d.wrong(n, "the secret comes from several places: keep one of secret, sha256, env and file")
		case sources == 0:
			d.wrong(n, "the secret is missing: give secret, sha256, env or file")
		case fromEnv != "":
			t.Secret = d.secretEnv(there["env"], fromEnv)
		case fromFile != "":
			t.Secret = d.secretFile(there["file"], fromFile)
		}
		for _, s := range scopes {
			t.Scopes = append(t.Scopes, service.Scope(s))
		}
		tokens = append(tokens, t)
		if len(d.errs) > before {
			return // more would only repeat it
		}
		d.joined(n, t.Check())
		if line, twice := names[t.Name]; twice {
			d.wrong(cmp.Or(there["name"], n), "the token in line %d has the name %q, too: logs could not tell them apart", line, t.Name)
		}
		names[t.Name] = n.Line
		sum := strings.ToLower(t.SHA256)
		if t.Secret != "" {
			digest := sha256.Sum256([]byte(t.Secret))
			sum = hex.EncodeToString(digest[:])
		}
		if other, twice := sums[sum]; twice {
			d.wrong(n, "the token %q has the same secret: give each its own", other)
		}
		sums[sum] = t.Name
	})
	return tokens
}

// joined tells errors one by one.
func (d *decoder) joined(n *yaml.Node, err error) {
	if err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { // only the outermost may be several
		for _, err := range many.Unwrap() {
			d.joined(n, err)
		}
		return
	}
	d.wrong(n, "%v", err)
}

var roles = map[string]web.Role{"none": web.None, "viewer": web.Viewer, "operator": web.Operator, "admin": web.Admin}

// ui reads what is said of the web UI: true, or its settings. Nil: there is none.
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
	there := d.mapping(n, fields{
		"path": &o.RootPath, "read_only": &o.ReadOnly, "prometheus": &o.PrometheusAddress, "origins": &o.Origins,
		"anonymous": func(n *yaml.Node) { o.Anonymous = d.role(n) },
		"users": func(n *yaml.Node) {
			d.list(n, func(_ int, n *yaml.Node) {
				var u web.User
				d.mapping(n, fields{"name": &u.Name, "password": secret{&u.Password}, "role": func(n *yaml.Node) { u.Role = d.role(n) }})
				o.Users = append(o.Users, u)
			})
		},
	})
	if at := there["path"]; at != nil && api.Reserved(o.RootPath) {
		d.wrong(at, "the service itself answers at %s: choose another path, such as /ui", o.RootPath)
	}
	if len(d.errs) == before && redis != nil {
		d.joined(n, o.Check())
	}
	return o
}

func (d *decoder) role(n *yaml.Node) web.Role {
	var name string
	d.value(n, &name)
	role, ok := roles[name]
	if !ok {
		d.wrong(n, "there is no role %.50q: write none, viewer, operator or admin", name)
	}
	return role
}
