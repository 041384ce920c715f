package conn

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

const defaultAddr = "127.0.0.1:6379"

// Namespace returns the namespace of the keys, or "" for the default.
func (c *Config) Namespace() string { return c.text("namespace") }

// RedisConnOpt returns the connection options, without the namespace.
func (c *Config) RedisConnOpt() (asynq.RedisConnOpt, error) {
	password, hasPassword, err := c.password()
	if err != nil {
		return nil, err
	}
	opt, uri, err := c.address()
	if err != nil {
		return nil, err
	}
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	// Other settings override the URI only if their source has at least the precedence of the URI.
	overrides := func(name string) bool { return c.has(name) && c.values[name].from >= uri }
	set := func(name string, into *string) {
		if overrides(name) || *into == "" && c.has(name) {
			*into = c.text(name)
		}
	}
	setPassword := func(into *string) {
		if hasPassword && (*into == "" || overrides("password") || overrides("password-file")) {
			*into = password
		}
	}
	dial, timeout := c.duration("dial-timeout"), c.duration("timeout")
	switch o := opt.(type) {
	case asynq.RedisClientOpt:
		set("username", &o.Username)
		setPassword(&o.Password)
		if overrides("db") || o.DB == 0 && c.has("db") {
			o.DB = c.database()
		}
		if timeout > 0 {
			o.ReadTimeout, o.WriteTimeout = timeout, timeout
		}
		if dial > 0 {
			o.DialTimeout = dial
		}
		host, _, _ := net.SplitHostPort(o.Addr)
		o.TLSConfig = mergeTLS(o.TLSConfig, config, host)
		return o, nil
	case asynq.RedisFailoverClientOpt:
		set("username", &o.Username)
		setPassword(&o.Password)
		set("sentinel-username", &o.SentinelUsername)
		set("sentinel-password", &o.SentinelPassword)
		if overrides("db") || o.DB == 0 && c.has("db") {
			o.DB = c.database()
		}
		if timeout > 0 {
			o.ReadTimeout, o.WriteTimeout = timeout, timeout
		}
		if dial > 0 {
			o.DialTimeout = dial
		}
		o.TLSConfig = mergeTLS(o.TLSConfig, config, "")
		return o, nil
	case asynq.RedisClusterClientOpt:
		set("username", &o.Username)
		setPassword(&o.Password)
		if c.database() != 0 {
			return nil, usage("a cluster has only database 0: omit %s", c.values["db"].from.of("db"))
		}
		if timeout > 0 {
			o.ReadTimeout, o.WriteTimeout = timeout, timeout
		}
		if dial > 0 {
			o.DialTimeout = dial
		}
		o.TLSConfig = mergeTLS(o.TLSConfig, config, "")
		return o, nil
	default:
		return opt, nil
	}
}

// FewRetries returns opt with fewer connection attempts, so that errors appear quickly.
func FewRetries(opt asynq.RedisConnOpt) asynq.RedisConnOpt {
	switch o := opt.(type) {
	case asynq.RedisClientOpt:
		return o.Configure(func(r *redis.Options) { r.DialerRetries = 1 })
	case asynq.RedisFailoverClientOpt:
		// Each attempt queries all sentinels, several times each: the retries of dials and of
		// commands multiply to more than half a minute.
		return o.Configure(func(r *redis.FailoverOptions) { r.DialerRetries, r.MaxRetries = 1, 1 })
	default:
		return opt
	}
}

// address returns the options with the address of Redis, and the source of the URI if one is set.
func (c *Config) address() (asynq.RedisConnOpt, source, error) {
	uri := c.text("uri")
	switch {
	case c.has("sentinel-addrs") || c.has("sentinel-master"):
		addrs := splitAddrs(c.text("sentinel-addrs"), "26379")
		if len(addrs) == 0 || c.text("sentinel-master") == "" {
			return nil, unset, usage("Sentinel requires both --sentinel-addrs and --sentinel-master")
		}
		return asynq.RedisFailoverClientOpt{MasterName: c.text("sentinel-master"), SentinelAddrs: addrs}, unset, nil
	case c.has("cluster-addrs"), c.boolean("cluster") && !strings.Contains(uri, "://"):
		list := c.text("cluster-addrs")
		if !c.has("cluster-addrs") {
			list = cmp.Or(uri, defaultAddr)
		}
		addrs := splitAddrs(list, "6379")
		if len(addrs) == 0 {
			return nil, unset, usage("--cluster-addrs is empty: use host:port,host:port")
		}
		return asynq.RedisClusterClientOpt{Addrs: addrs}, unset, nil
	case uri == "":
		return asynq.RedisClientOpt{Addr: defaultAddr}, unset, nil
	case strings.HasPrefix(uri, "/"):
		return asynq.RedisClientOpt{Network: "unix", Addr: uri}, unset, nil
	}
	from := c.values["uri"].from
	if !strings.Contains(uri, "://") {
		uri = "redis://" + uri
	}
	opt, err := asynq.ParseRedisURI(uri) // its errors contain no password
	if err != nil {
		return nil, unset, usage("%s: %v", from.of("uri"), err)
	}
	return opt, from, nil
}

// splitAddrs splits a list of addresses and adds missing ports.
func splitAddrs(list, port string) []string {
	var addrs []string
	for addr := range strings.SplitSeq(list, ",") {
		if addr = strings.TrimSpace(addr); addr != "" {
			if _, _, err := net.SplitHostPort(addr); err != nil && !strings.Contains(addr, ":") {
				addr = net.JoinHostPort(addr, port)
			}
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// tlsConfig returns the TLS configuration of the flags; nil if they do not enable TLS.
func (c *Config) tlsConfig() (*tls.Config, error) {
	if !c.boolean("tls") && !c.has("tls-server") && !c.has("tls-ca") && !c.has("tls-cert") && !c.has("tls-key") {
		if c.boolean("insecure") {
			return &tls.Config{InsecureSkipVerify: true}, nil // for a URI with TLS
		}
		return nil, nil
	}
	config := &tls.Config{ServerName: c.text("tls-server"), InsecureSkipVerify: c.boolean("insecure"), MinVersion: tls.VersionTLS12}
	if c.has("tls-ca") {
		pem, err := os.ReadFile(c.text("tls-ca"))
		if err != nil {
			return nil, usage("--tls-ca: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--tls-ca: %s contains no PEM certificate", c.text("tls-ca"))
		}
	}
	if c.has("tls-cert") != c.has("tls-key") {
		return nil, usage("a client certificate requires both --tls-cert and --tls-key")
	}
	if c.has("tls-cert") {
		pair, err := tls.LoadX509KeyPair(c.text("tls-cert"), c.text("tls-key"))
		if err != nil {
			return nil, usage("--tls-cert: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// mergeTLS merges the TLS settings of the URI and the flags. MinVersion distinguishes flags that
// enable TLS from --insecure alone.
func mergeTLS(ofURI, ofFlags *tls.Config, host string) *tls.Config {
	switch {
	case ofFlags == nil, ofURI == nil && ofFlags.MinVersion == 0:
		return ofURI
	case ofURI != nil && ofURI.InsecureSkipVerify:
		ofFlags.InsecureSkipVerify = true
	}
	if ofFlags.ServerName == "" {
		ofFlags.ServerName = host
	}
	return ofFlags
}
