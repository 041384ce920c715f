package asynq

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// uriParams are the values of the query parameters, with the zero value for what is not given.
type uriParams struct {
	db               int
	dialTimeout      time.Duration
	readTimeout      time.Duration
	writeTimeout     time.Duration
	poolSize         int
	maxRetries       int
	maxRedirects     int
	clientName       string
	skipVerify       bool
	master           string
	sentinelUsername string
	sentinelPassword string
	ownSentinelAuth  bool // either of the two above is given, perhaps empty
}

// uriParamUse says which URIs may have a query parameter.
type uriParamUse struct {
	kinds    uriKind
	needsTLS bool
}

var uriParamUses = map[string]uriParamUse{
	"client_name":          {kinds: uriAny},
	"db":                   {kinds: uriAny &^ uriCluster},
	"dial_timeout":         {kinds: uriAny},
	"insecure_skip_verify": {kinds: uriAny, needsTLS: true},
	"master":               {kinds: uriSentinel},
	"max_redirects":        {kinds: uriCluster},
	"max_retries":          {kinds: uriAny},
	"pool_size":            {kinds: uriAny},
	"read_timeout":         {kinds: uriAny},
	"sentinel_password":    {kinds: uriSentinel},
	"sentinel_username":    {kinds: uriSentinel},
	"write_timeout":        {kinds: uriAny},
}

// set takes the value of one of uriParamUses.
func (p *uriParams) set(name, value string) (err error) {
	switch name {
	case "client_name":
		p.clientName, err = parseClientName(value)
	case "db":
		p.db, err = parseDB(value)
	case "dial_timeout":
		p.dialTimeout, err = parseTimeout(value)
	case "insecure_skip_verify":
		if p.skipVerify, err = strconv.ParseBool(value); err != nil {
			err = errors.New("must be true or false")
		}
	case "master":
		p.master = value
	case "max_redirects":
		p.maxRedirects, err = parseRepeats(value)
	case "max_retries":
		p.maxRetries, err = parseRepeats(value)
	case "pool_size":
		p.poolSize, err = parsePoolSize(value)
	case "read_timeout":
		p.readTimeout, err = parseIOTimeout(value)
	case "sentinel_password":
		p.sentinelPassword, p.ownSentinelAuth = value, true
	case "sentinel_username":
		p.sentinelUsername, p.ownSentinelAuth = value, true
	case "write_timeout":
		p.writeTimeout, err = parseIOTimeout(value)
	}
	return err
}

func parseDB(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("must be the number of a database, from 0")
	}
	return int(n), nil
}

func parsePoolSize(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 {
		return 0, errors.New("must be a number of connections, from 1")
	}
	return int(n), nil
}

// parseRepeats returns the value for a go-redis option in which 0 stands for the default, and -1 for none.
func parseRepeats(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < -1 {
		return 0, errors.New("must be a number, with 0 for never")
	}
	if n == 0 {
		return -1, nil
	}
	return int(n), nil
}

func parseClientName(s string) (string, error) {
	// What CLIENT SETNAME accepts.
	if strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' }) {
		return "", errors.New("may have only printable ASCII characters and no spaces")
	}
	return s, nil
}

func parseTimeout(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseUint(s, 10, 63); err == nil && seconds <= math.MaxInt64/uint64(time.Second) {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("must be above zero: a duration as in 1.5s or 300ms, or whole seconds")
	}
	return d, nil
}

func parseIOTimeout(s string) (time.Duration, error) {
	if s == "-1" {
		return -1, nil // go-redis: no limit
	}
	d, err := parseTimeout(s)
	if err != nil {
		return 0, fmt.Errorf("%w; -1 means no limit", err)
	}
	return d, nil
}

func (u *redisURI) setParams(query string) error {
	var seen []string
	for item := range strings.SplitSeq(query, "&") {
		if item == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(item, "=")
		name, nameErr := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if nameErr != nil || valueErr != nil {
			return errors.New("bad percent-encoding in the query: write % as %25")
		}
		use, known := uriParamUses[name]
		switch {
		case !known && slices.Contains(seen, "sentinel_password"):
			// After a password that has an & in it, the name may be its other half.
			return errors.New("unknown query parameter after sentinel_password: write & in a password as %26")
		case !known:
			return fmt.Errorf("unknown query parameter%s: the ones for %s are %s",
				quoteWord(name), u.name, strings.Join(u.paramNames(), ", "))
		case use.kinds&u.kind == 0:
			return fmt.Errorf("query parameter %s is not for %s", name, u.name)
		case use.needsTLS && !u.tls:
			return fmt.Errorf("query parameter %s needs TLS: use a rediss scheme", name)
		case slices.Contains(seen, name), name == "db" && u.dbInPath:
			return fmt.Errorf("%s is given twice", name)
		}
		if err := u.params.set(name, value); err != nil {
			return fmt.Errorf("query parameter %s %w", name, err)
		}
		seen = append(seen, name)
	}
	if u.kind == uriSentinel && u.params.master == "" {
		return errors.New("no master: add ?master=name, the name by which the sentinels know it")
	}
	return nil
}

func (u *redisURI) paramNames() []string {
	var names []string
	for name, use := range uriParamUses {
		if use.kinds&u.kind != 0 && (u.tls || !use.needsTLS) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
