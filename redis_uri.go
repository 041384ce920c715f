package asynq

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// ParseRedisURI returns the connection options that uri describes:
//
//	redis://[user:password@][host][:port][/db]
//	rediss://…                                     the same with TLS
//	redis-socket://[user:password@]/path/to.sock[?db=N]
//	unix://…                                       the same
//	redis-sentinel://[user:password@]host1[:port][,host2[:port]…][/db]?master=name
//	rediss-sentinel://…                            the same with TLS
//	redis-cluster://[user:password@]host1[:port][,host2[:port]…][?max_redirects=N]
//	rediss-cluster://…                             the same with TLS
//
// The default host of a single server is localhost. The default port is 6379, and 26379 for
// sentinels. IPv6 addresses are enclosed in brackets. The characters / ? # @ % in a user name,
// password or path must be percent-encoded. With TLS, the certificate must be valid for the host
// that is dialed.
//
// The query parameters apply to all schemes unless noted otherwise. If a parameter is repeated, the
// last value applies:
//
//	db                   number of the database; overrides the path; not for clusters
//	insecure_skip_verify, skip_verify
//	                     true accepts all certificates; only with TLS
//	max_redirects        see RedisClusterClientOpt.MaxRedirects; only for clusters
//	master               name of the master; required for sentinels
//	sentinel_username, sentinel_password   only for sentinels
//	family, ssl_cert_reqs                  ignored; hosting providers append them
//
// All other parameters of redis.ParseURL in the linked go-redis version become the Params of the
// connection options, such as dial_timeout, read_timeout, pool_size, max_retries and client_name. A
// duration is 1.5s, 300ms or a number of seconds; a time limit of 0 or less means none. An empty
// value, and 0 for other numbers, means the default.
//
// With a sentinel scheme, user and password authenticate with the sentinels. If sentinel_username
// or sentinel_password is present, even with an empty value, they authenticate with Redis.
//
// ParseRedisURI returns an error if uri is invalid. The error does not contain the password.
func ParseRedisURI(uri string) (RedisConnOpt, error) {
	opt, err := parseRedisURI(uri)
	if err != nil {
		// Errors contain only the names of schemes and parameters: in a malformed URI, any other
		// part may belong to a password.
		return nil, fmt.Errorf("asynq: invalid Redis URI: %w", err)
	}
	return opt, nil
}

// uriScheme describes the connections of a URI scheme.
type uriScheme struct {
	typ    reflect.Type // of the connection options
	tls    bool
	socket bool
}

var (
	serverOpt   = reflect.TypeFor[RedisClientOpt]()
	failoverOpt = reflect.TypeFor[RedisFailoverClientOpt]()
	clusterOpt  = reflect.TypeFor[RedisClusterClientOpt]()
)

var uriSchemes = map[string]uriScheme{
	"redis":           {typ: serverOpt},
	"rediss":          {typ: serverOpt, tls: true},
	"redis-socket":    {typ: serverOpt, socket: true},
	"unix":            {typ: serverOpt, socket: true},
	"redis-sentinel":  {typ: failoverOpt},
	"rediss-sentinel": {typ: failoverOpt, tls: true},
	"redis-cluster":   {typ: clusterOpt},
	"rediss-cluster":  {typ: clusterOpt, tls: true},
}

// redisURI is a URI that is being parsed.
type redisURI struct {
	name string // scheme
	uriScheme
	opt reflect.Value // the connection options
}

func (u *redisURI) set(field string, value any) { u.opt.FieldByName(field).Set(reflect.ValueOf(value)) }

// parseRedisURI parses uri. It does not use net/url, which rejects a list of hosts and includes the
// password in its errors.
func parseRedisURI(uri string) (RedisConnOpt, error) {
	name, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return nil, fmt.Errorf("no scheme: it must begin with redis:// or one of %s", schemeNames())
	}
	u := &redisURI{name: strings.ToLower(name)}
	if u.uriScheme, ok = uriSchemes[u.name]; !ok {
		return nil, fmt.Errorf("unknown scheme%s: use one of %s", quoteWord(u.name), schemeNames())
	}
	u.opt = reflect.New(u.typ).Elem()
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
	return u.opt.Interface().(RedisConnOpt), nil
}

func (u *redisURI) setUser(userinfo string) error {
	user, password, _ := strings.Cut(userinfo, ":")
	user, userErr := url.PathUnescape(user)
	password, passwordErr := url.PathUnescape(password)
	if userErr != nil || passwordErr != nil {
		return errors.New("bad percent-encoding in the user name or password: write % as %25")
	}
	u.set("Username", user)
	u.set("Password", password)
	return nil
}

func (u *redisURI) setHosts(list string) error {
	switch {
	case u.socket && list != "":
		return fmt.Errorf("a host before the path of the socket: write three slashes, as in %s:///path/to.sock", u.name)
	case u.socket:
		return nil
	case list == "" && u.typ != serverOpt:
		return fmt.Errorf("no host: write it after the slashes, as in %s://localhost", u.name)
	case u.typ == serverOpt && strings.Contains(list, ","):
		return errors.New("more than one host: use redis-sentinel:// or redis-cluster:// for a list of hosts")
	}
	defaultPort := "6379"
	if u.typ == failoverOpt {
		defaultPort = "26379"
	}
	if u.typ == serverOpt && (list == "" || list[0] == ':') {
		list = "localhost" + list
	}
	config := &tls.Config{} // for a list of hosts, crypto/tls uses the name of the dialed host
	var addrs []string
	for i, item := range strings.Split(list, ",") {
		host, port, err := parseURIHost(item, defaultPort)
		if err != nil {
			return fmt.Errorf("host %d: %w", i+1, err)
		}
		addrs = append(addrs, net.JoinHostPort(host, port))
		if u.typ == serverOpt {
			config.ServerName = host
		}
	}
	switch u.typ {
	case serverOpt:
		u.set("Addr", addrs[0])
	case failoverOpt:
		u.set("SentinelAddrs", addrs)
	case clusterOpt:
		u.set("Addrs", addrs)
	}
	if u.tls {
		u.set("TLSConfig", config)
	}
	return nil
}

var errURIHost = errors.New("must be host or host:port, with an IPv6 address in brackets, as in [::1]:6379, " +
	"and a port from 1 to 65535")

func parseURIHost(item, defaultPort string) (host, port string, err error) {
	parsed, err := url.Parse("redis://" + item)
	if err != nil {
		return "", "", errURIHost // without the error, which contains the item
	}
	host, port = parsed.Hostname(), cmp.Or(parsed.Port(), defaultPort)
	name := host
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && item[0] == '[' {
		name = "ip" + ip.Zone()
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || name == "" || strings.ContainsFunc(name, notInHostname) {
		return "", "", errURIHost
	}
	return host, port, nil
}

func notInHostname(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r)
}

func (u *redisURI) setPath(path string) error {
	if u.socket {
		socket, err := url.PathUnescape(path)
		if err != nil {
			return errors.New("bad percent-encoding in the path: write % as %25")
		}
		if socket == "" || strings.HasSuffix(socket, "/") || strings.ContainsRune(socket, 0) {
			return fmt.Errorf("no socket path: write it as in %s:///path/to.sock", u.name)
		}
		u.set("Network", "unix")
		u.set("Addr", socket)
		return nil
	}
	db := strings.Trim(path, "/")
	if db == "" || db == "0" && u.typ == clusterOpt {
		return nil
	}
	if u.typ == clusterOpt {
		return errors.New("a path: a cluster has only database 0, remove it")
	}
	n, err := parseDB(db)
	if err != nil {
		return fmt.Errorf("the path may only be the number of a database, as in %s://host/2", u.name)
	}
	u.set("DB", n)
	return nil
}

func schemeNames() string {
	names := make([]string, 0, len(uriSchemes))
	for name := range uriSchemes {
		names = append(names, name+"://")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// quoteWord quotes s if it looks like a mistyped name, and returns "" otherwise.
func quoteWord(s string) string {
	strange := func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && r != '-' }
	if s == "" || len(s) > 30 || strings.ContainsFunc(s, strange) {
		return ""
	}
	return " " + strconv.Quote(s)
}

// uriFields are the fields that query parameters set; others go into Params.
var uriFields = map[string]string{
	"db":                   "DB",
	"master":               "MasterName",
	"sentinel_username":    "SentinelUsername",
	"sentinel_password":    "SentinelPassword",
	"insecure_skip_verify": "TLSConfig",
	"skip_verify":          "TLSConfig",
}

// setParams sets the query parameters.
func (u *redisURI) setParams(query string) error {
	params := make(url.Values)
	var auth []string // the parameters for sentinels
	for item := range strings.SplitSeq(query, "&") {
		rawName, rawValue, _ := strings.Cut(item, "=")
		name, nameErr := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if nameErr != nil || valueErr != nil {
			return errors.New("bad percent-encoding in the query: write % as %25")
		}
		if name == "" || name == "family" || name == "ssl_cert_reqs" {
			continue // appended by hosting providers for clients in other languages
		}
		field := uriFields[name]
		var err error
		switch {
		case field == "":
			err = u.checkParam(name, value)
			params.Set(name, value)
		case !u.opt.FieldByName(field).IsValid():
			err = fmt.Errorf("query parameter %s is not allowed for %s", name, u.name)
		default:
			err = u.setField(field, value)
		}
		switch {
		case errors.Is(err, errUnknownParam) && slices.Contains(auth, "sentinel_password"):
			// The name may be part of a password that contains an &.
			return errors.New("unknown query parameter after sentinel_password: write & in a password as %26")
		case err != nil:
			return err
		case strings.HasPrefix(name, "sentinel_"):
			auth = append(auth, name)
		}
	}
	u.set("Params", params.Encode())
	if u.typ != failoverOpt {
		return nil
	}
	if u.opt.FieldByName("MasterName").IsZero() {
		return errors.New("no master: add ?master=name")
	}
	if len(auth) == 0 {
		for _, field := range []string{"Username", "Password"} {
			u.opt.FieldByName("Sentinel" + field).Set(u.opt.FieldByName(field))
			u.opt.FieldByName(field).SetZero()
		}
	}
	return nil
}

// setField sets a field to the value of a query parameter.
func (u *redisURI) setField(field, value string) error {
	switch field {
	case "DB":
		if value == "" {
			return nil // the path applies
		}
		n, err := parseDB(value)
		if err != nil {
			return fmt.Errorf("query parameter db %w", err)
		}
		u.set(field, n)
	case "TLSConfig":
		if !u.tls {
			return errors.New("query parameter insecure_skip_verify needs TLS: use a rediss scheme")
		}
		skip, err := strconv.ParseBool(cmp.Or(value, "false"))
		if err != nil {
			return errors.New("query parameter insecure_skip_verify must be true or false")
		}
		u.opt.FieldByName(field).Interface().(*tls.Config).InsecureSkipVerify = skip // requested explicitly
	default:
		u.set(field, value)
	}
	return nil
}

var errUnknownParam = errors.New("unknown query parameter")

// checkParam checks a parameter of go-redis. It accepts those for a single server, and the
// redirects of a cluster: other parameters for clusters and sentinels spread reads over replicas,
// which must not happen, or repeat parts of the URI.
func (u *redisURI) checkParam(name, value string) error {
	accepts := func(value string) bool {
		uri := "redis://localhost?" + url.Values{name: {value}}.Encode()
		_, err := redis.ParseURL(uri)
		switch {
		case u.typ == clusterOpt && (err == nil || name == "max_redirects"):
			_, err = redis.ParseClusterURL(uri)
		case u.typ == failoverOpt && err == nil:
			_, err = redis.ParseFailoverURL(uri)
		}
		return err == nil
	}
	switch {
	case !accepts(""):
		return fmt.Errorf("%w%s for %s: see ParseRedisURI and redis.ParseURL of go-redis", errUnknownParam, quoteWord(name), u.name)
	case !accepts(value):
		return fmt.Errorf("query parameter %s is invalid: see redis.ParseURL of go-redis", name)
	}
	return nil
}

func parseDB(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("must be the number of a database, from 0")
	}
	return int(n), nil
}
