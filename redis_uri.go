package asynq

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// ParseRedisURI returns the connection option that uri describes:
//
//	redis://[user:password@]host[:port][/db]
//	rediss://…                                     the same with TLS
//	redis-socket://[user:password@]/path/to.sock[?db=N]
//	redis-sentinel://[user:password@]host1[:port][,host2[:port]…][/db]?master=name
//	rediss-sentinel://…                            the same with TLS
//	redis-cluster://[user:password@]host1[:port][,host2[:port]…][?max_redirects=N]
//	rediss-cluster://…                             the same with TLS
//
// The port is 6379, of a sentinel 26379, if none is given. An IPv6 address stands in brackets. A / ? # @ or % that is
// part of a user name, password or path is written in percent-encoding. With TLS the certificate must be for the
// host that is dialed.
//
// Query parameters, for every scheme unless said otherwise:
//
//	dial_timeout, read_timeout, write_timeout   a duration (1.5s, 300ms) or whole seconds; for the latter two
//	                                            -1 means no limit
//	pool_size            connections, see RedisClientOpt.PoolSize
//	max_retries          how often a command is repeated after a network error, 0 for never
//	client_name          the name of the connections, without spaces
//	db                   the number of the database, if not in the path; not for a cluster
//	insecure_skip_verify true accepts any certificate; only with TLS
//	max_redirects        see RedisClusterClientOpt.MaxRedirects, 0 for never; only for a cluster
//	master               the name of the master; only for sentinels, and necessary there
//	sentinel_username, sentinel_password   only for sentinels
//
// The user and password in front of the sentinels are for the sentinels, unless sentinel_username or
// sentinel_password is given, perhaps empty: then they are for Redis.
//
// An error says what is wrong, and never contains the password.
func ParseRedisURI(uri string) (RedisConnOpt, error) {
	u, err := splitRedisURI(uri)
	if err != nil {
		// Nothing of the URI but the names of schemes and parameters goes into an error: where the parts are not what
		// they should be, any of them may be a piece of a password.
		return nil, fmt.Errorf("asynq: invalid Redis URI: %w", err)
	}
	return u.connOpt(), nil
}

// uriKind is what a URI connects to; a set of them says where a query parameter belongs.
type uriKind uint8

const (
	uriServer uriKind = 1 << iota
	uriSocket
	uriSentinel
	uriCluster

	uriAny = uriServer | uriSocket | uriSentinel | uriCluster
)

type uriScheme struct {
	kind uriKind
	tls  bool
}

var uriSchemes = map[string]uriScheme{
	"redis":           {kind: uriServer},
	"rediss":          {kind: uriServer, tls: true},
	"redis-socket":    {kind: uriSocket},
	"redis-sentinel":  {kind: uriSentinel},
	"rediss-sentinel": {kind: uriSentinel, tls: true},
	"redis-cluster":   {kind: uriCluster},
	"rediss-cluster":  {kind: uriCluster, tls: true},
}

// redisURI is a URI taken apart.
type redisURI struct {
	name string // of the scheme
	uriScheme
	username, password string
	hosts              []uriHost
	socket             string // path of the unix socket
	dbInPath           bool
	params             uriParams
}

// splitRedisURI takes uri apart by hand: net/url refuses a list of hosts, and quotes the password in its errors.
func splitRedisURI(uri string) (*redisURI, error) {
	name, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return nil, fmt.Errorf("no scheme: it must begin with redis:// or one of %s", schemeNames())
	}
	u := &redisURI{name: strings.ToLower(name)}
	if u.uriScheme, ok = uriSchemes[u.name]; !ok {
		return nil, fmt.Errorf("unknown scheme%s: use one of %s", quoteWord(u.name), schemeNames())
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if strings.Contains(tail, "@") {
		return nil, errors.New("an @ after the host: write / ? # @ in a user name or password as %2F %3F %23 %40")
	}
	if strings.Contains(tail, "#") {
		return nil, errors.New("a fragment: write # as %23")
	}
	path, query, _ := strings.Cut(tail, "?")

	hosts := authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		hosts = authority[i+1:]
		if err := u.setUser(authority[:i]); err != nil {
			return nil, err
		}
	}
	if err := u.setHosts(hosts); err != nil {
		return nil, err
	}
	if err := u.setPath(path); err != nil {
		return nil, err
	}
	if err := u.setParams(query); err != nil {
		return nil, err
	}
	return u, nil
}

func (u *redisURI) setUser(userinfo string) error {
	user, password, _ := strings.Cut(userinfo, ":")
	var err error
	if u.username, err = url.PathUnescape(user); err == nil {
		u.password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("bad percent-encoding in the user name or password: write % as %25")
	}
	return nil
}

// uriHost is an address to dial, with its default port filled in.
type uriHost struct{ host, port string }

func (h uriHost) addr() string { return net.JoinHostPort(h.host, h.port) }

func (u *redisURI) setHosts(list string) error {
	switch {
	case u.kind == uriSocket && list != "":
		return fmt.Errorf("a host before the path of the socket: write three slashes, as in %s:///path/to.sock", u.name)
	case u.kind == uriSocket:
		return nil
	case list == "":
		return fmt.Errorf("no host: write it after the slashes, as in %s://localhost", u.name)
	case u.kind == uriServer && strings.Contains(list, ","):
		return errors.New("more than one host: use redis-sentinel:// or redis-cluster:// for a list of hosts")
	}
	defaultPort := "6379"
	if u.kind == uriSentinel {
		defaultPort = "26379"
	}
	for i, item := range strings.Split(list, ",") {
		host, err := parseURIHost(item, defaultPort)
		if err != nil {
			return fmt.Errorf("host %d: %w", i+1, err)
		}
		u.hosts = append(u.hosts, host)
	}
	return nil
}

func parseURIHost(item, defaultPort string) (uriHost, error) {
	host, port, hasPort := strings.Cut(item, ":")
	bracketed, isBracketed := strings.CutPrefix(item, "[")
	switch {
	case isBracketed:
		inner, after, closed := strings.Cut(bracketed, "]")
		inner = strings.Replace(inner, "%25", "%", 1) // a zone, as in [fe80::1%25eth0]
		ip, err := netip.ParseAddr(inner)
		if !closed || err != nil || !ip.Is6() || strings.ContainsFunc(ip.Zone(), notInHostname) ||
			after != "" && after[0] != ':' {
			return uriHost{}, errors.New("not an IPv6 address in brackets, as in [::1]:6379")
		}
		host, port, hasPort = inner, strings.TrimPrefix(after, ":"), after != ""
	case strings.Contains(port, ":"):
		return uriHost{}, errors.New("more than one colon: write an IPv6 address in brackets, as in [::1]:6379")
	case host == "":
		return uriHost{}, errors.New("missing: write it as host or host:port")
	case strings.ContainsFunc(host, notInHostname):
		return uriHost{}, errors.New("has a character that no host name has")
	}
	if !hasPort || port == "" {
		return uriHost{host, defaultPort}, nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return uriHost{}, errors.New("the port must be a number from 1 to 65535")
	}
	return uriHost{host, port}, nil
}

func notInHostname(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r)
}

func (u *redisURI) setPath(path string) error {
	if u.kind == uriSocket {
		socket, err := url.PathUnescape(path)
		if err != nil {
			return errors.New("bad percent-encoding in the path: write % as %25")
		}
		if socket == "" || strings.HasSuffix(socket, "/") || strings.ContainsRune(socket, 0) {
			return fmt.Errorf("no path of a socket: write it as in %s:///path/to.sock", u.name)
		}
		u.socket = socket
		return nil
	}
	db := strings.TrimPrefix(path, "/")
	if db == "" {
		return nil
	}
	if u.kind == uriCluster {
		if db != "0" {
			return errors.New("a path: a cluster has only database 0, leave it out")
		}
		return nil
	}
	n, err := parseDB(db)
	if err != nil {
		return fmt.Errorf("the path may only be the number of a database, as in %s://host/2", u.name)
	}
	u.params.db, u.dbInPath = n, true
	return nil
}

func (u *redisURI) connOpt() RedisConnOpt {
	p := u.params
	switch u.kind {
	case uriSentinel:
		opt := RedisFailoverClientOpt{
			MasterName:       p.master,
			SentinelAddrs:    u.addrs(),
			SentinelUsername: u.username,
			SentinelPassword: u.password,
			DB:               p.db,
			DialTimeout:      p.dialTimeout,
			ReadTimeout:      p.readTimeout,
			WriteTimeout:     p.writeTimeout,
			PoolSize:         p.poolSize,
			TLSConfig:        u.tlsConfig(),
			MaxRetries:       p.maxRetries,
			ClientName:       p.clientName,
		}
		if p.ownSentinelAuth {
			opt.Username, opt.Password = u.username, u.password
			opt.SentinelUsername, opt.SentinelPassword = p.sentinelUsername, p.sentinelPassword
		}
		return opt
	case uriCluster:
		return RedisClusterClientOpt{
			Addrs:        u.addrs(),
			MaxRedirects: p.maxRedirects,
			Username:     u.username,
			Password:     u.password,
			DialTimeout:  p.dialTimeout,
			ReadTimeout:  p.readTimeout,
			WriteTimeout: p.writeTimeout,
			TLSConfig:    u.tlsConfig(),
			PoolSize:     p.poolSize,
			MaxRetries:   p.maxRetries,
			ClientName:   p.clientName,
		}
	}
	opt := RedisClientOpt{
		Username:     u.username,
		Password:     u.password,
		DB:           p.db,
		DialTimeout:  p.dialTimeout,
		ReadTimeout:  p.readTimeout,
		WriteTimeout: p.writeTimeout,
		PoolSize:     p.poolSize,
		TLSConfig:    u.tlsConfig(),
		MaxRetries:   p.maxRetries,
		ClientName:   p.clientName,
	}
	if u.kind == uriSocket {
		opt.Network, opt.Addr = "unix", u.socket
	} else {
		opt.Addr = u.hosts[0].addr()
	}
	return opt
}

func (u *redisURI) addrs() []string {
	addrs := make([]string, len(u.hosts))
	for i, host := range u.hosts {
		addrs[i] = host.addr()
	}
	return addrs
}

func (u *redisURI) tlsConfig() *tls.Config {
	if !u.tls {
		return nil
	}
	// Certificates go unchecked only where the user asks for it in so many words.
	config := &tls.Config{InsecureSkipVerify: u.params.skipVerify}
	if u.kind == uriServer {
		// A list of hosts has no one name: crypto/tls then takes the name that is dialed.
		config.ServerName = u.hosts[0].host
	}
	return config
}

func schemeNames() string {
	names := make([]string, 0, len(uriSchemes))
	for name := range uriSchemes {
		names = append(names, name+"://")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// quoteWord quotes what looks like a mistyped name, and leaves out anything else.
func quoteWord(s string) string {
	strange := func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && r != '-' }
	if s == "" || len(s) > 30 || strings.ContainsFunc(s, strange) {
		return ""
	}
	return " " + strconv.Quote(s)
}
