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

// Namespace is what keys begin with; "" for the default.
func (c *Config) Namespace() string { return c.text("namespace") }

// RedisConnOpt says how to connect, without the namespace.
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
	// What stands in the URI gives way only to what comes from as high a place as the URI itself.
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
			o.DB = c.number("db")
		}
		if timeout > 0 {
			o.ReadTimeout, o.WriteTimeout = timeout, timeout
		}
		if dial > 0 {
			o.DialTimeout = dial
		}
		host, _, _ := net.SplitHostPort(o.Addr)
		o.TLSConfig = mergeTLS(o.TLSConfig, config, host)
		o.Configure = func(r *redis.Options) { r.DialerRetries = 1 }
		return o, nil
	case asynq.RedisFailoverClientOpt:
		set("username", &o.Username)
		setPassword(&o.Password)
		set("sentinel-username", &o.SentinelUsername)
		set("sentinel-password", &o.SentinelPassword)
		if overrides("db") || o.DB == 0 && c.has("db") {
			o.DB = c.number("db")
		}
		if timeout > 0 {
			o.ReadTimeout, o.WriteTimeout = timeout, timeout
		}
		if dial > 0 {
			o.DialTimeout = dial
		}
		o.TLSConfig = mergeTLS(o.TLSConfig, config, "")
		// Each try asks all sentinels, several times each: the retries of dials and of commands multiply to more than half a minute.
		o.Configure = func(r *redis.FailoverOptions) { r.DialerRetries, r.MaxRetries = 1, 1 }
		return o, nil
	case asynq.RedisClusterClientOpt:
		set("username", &o.Username)
		setPassword(&o.Password)
		if c.number("db") != 0 {
			return nil, usage("a cluster has only database 0: leave %s out", c.values["db"].from.of("db"))
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

// address is where Redis is, and where its URI comes from if it is one that can say more than an address.
func (c *Config) address() (asynq.RedisConnOpt, source, error) {
	uri := c.text("uri")
	switch {
	case c.has("sentinel-addrs") || c.has("sentinel-master"):
		addrs := splitAddrs(c.text("sentinel-addrs"), "26379")
		if len(addrs) == 0 || c.text("sentinel-master") == "" {
			return nil, unset, usage("Sentinel needs both --sentinel-addrs and --sentinel-master")
		}
		return asynq.RedisFailoverClientOpt{MasterName: c.text("sentinel-master"), SentinelAddrs: addrs}, unset, nil
	case c.has("cluster-addrs"), c.yes("cluster") && !strings.Contains(uri, "://"):
		list := c.text("cluster-addrs")
		if !c.has("cluster-addrs") {
			list = cmp.Or(uri, defaultAddr)
		}
		addrs := splitAddrs(list, "6379")
		if len(addrs) == 0 {
			return nil, unset, usage("--cluster-addrs names no node: write host:port,host:port")
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

// splitAddrs takes a list of addresses apart, and fills the port in.
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

// tlsConfig is what the flags say of TLS; nil if they do not turn it on.
func (c *Config) tlsConfig() (*tls.Config, error) {
	if !c.yes("tls") && !c.has("tls-server") && !c.has("tls-ca") && !c.has("tls-cert") && !c.has("tls-key") {
		if c.yes("insecure") {
			return &tls.Config{InsecureSkipVerify: true}, nil // for a URI that has TLS
		}
		return nil, nil
	}
	config := &tls.Config{ServerName: c.text("tls-server"), InsecureSkipVerify: c.yes("insecure"), MinVersion: tls.VersionTLS12}
	if c.has("tls-ca") {
		pem, err := os.ReadFile(c.text("tls-ca"))
		if err != nil {
			return nil, usage("--tls-ca: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--tls-ca: %s holds no certificate in PEM form", c.text("tls-ca"))
		}
	}
	if c.has("tls-cert") != c.has("tls-key") {
		return nil, usage("a client certificate needs both --tls-cert and --tls-key")
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

// mergeTLS adds to the TLS of a URI what the flags say. MinVersion tells flags that turn TLS on from a mere --insecure.
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
