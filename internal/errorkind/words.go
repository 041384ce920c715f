package errorkind

// set is a set of words in lower case, of at most 16 bytes.
type set map[string]struct{}

func setOf(words ...string) set {
	s := make(set, len(words))
	for _, w := range words {
		s[w] = struct{}{}
	}
	return s
}

// has reports whether the set has a word, in any case of its letters.
func (s set) has(w string) bool {
	var lower [16]byte
	if len(w) == 0 || len(w) > len(lower) {
		return false
	}
	for i := range len(w) {
		c := w[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	_, ok := s[string(lower[:len(w)])]
	return ok
}

var (
	// codes are words before numbers that identify the kind of error.
	codes = setOf("status", "code", "http", "errno", "sqlstate", "exit", "signal", "smtp", "error", "err", "statuscode", "status_code", "status-code",
		"error_code", "errorcode", "exitcode", "exit_code", "rcode", "http_status", "alert")

	// returns are words before the status of a response.
	returns = setOf("returned", "responded", "response", "replied", "reply", "received", "with", "answered")

	// amounts are words before numbers that measure something.
	amounts = setOf("size", "length", "len", "offset", "position", "limit", "max", "min", "maximum", "minimum", "count", "total", "line", "column",
		"than", "exceeds", "after", "at", "byte", "bytes", "most", "least", "capacity", "need", "needs", "wanted", "want", "only", "of", "attempt", "took")

	// units are words after such numbers.
	units = setOf("bytes", "byte", "b", "kb", "mb", "gb", "kib", "mib", "gib", "ns", "us", "ms", "s", "sec", "secs", "second", "seconds", "minute",
		"minutes", "hour", "hours", "day", "days", "row", "rows", "item", "items", "record", "records", "task", "tasks", "message", "messages", "key", "keys",
		"entry", "entries", "char", "chars", "characters", "token", "tokens", "point", "points", "time", "times", "line", "lines", "attempt", "attempts",
		"retries", "tries", "user", "users", "file", "files", "request", "requests", "connection", "connections")

	// byteUnits are units of sizes. Large and small sizes are of the same kind.
	byteUnits = setOf("b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib")

	// explains are names of fields whose quoted values describe an error.
	explains = setOf("desc", "description", "message", "msg", "error", "err", "reason", "detail", "details", "cause", "title", "type", "code", "status",
		"error_code", "error_type", "decline_code", "error_message", "exception", "name", "param", "kind")

	// objects are words before the quoted name of a thing in the code or the database, rather than
	// a value.
	objects = setOf("constraint", "relation", "column", "table", "index", "function", "method", "field", "attribute", "type", "schema", "role", "parameter",
		"class", "property", "module", "package", "option", "sequence", "trigger", "view", "key", "module named", "flag", "header", "named", "variable")

	// methods are words before the path of a URL, such as those of HTTP.
	methods = setOf("get", "post", "put", "patch", "delete", "head", "options", "url", "uri", "endpoint", "route")

	// terms are names that contain digits.
	terms = setOf("x509", "sha1", "sha256", "sha384", "sha512", "md5", "utf8", "utf16", "utf8mb4", "ipv4", "ipv6", "http2", "http3", "h2", "h2c", "oauth2",
		"base64", "base32", "s3", "ec2", "k8s", "i18n", "tls1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
		"float64", "tcp4", "tcp6", "udp4", "udp6", "ip4", "ip6", "amd64", "arm64", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "p256", "rs256",
		"hs256", "es256", "ed25519", "bcrypt2", "gzip2", "mp3", "mp4", "h264", "neo4j", "log4j", "psycopg2", "boto3", "urllib3", "python3", "sqlite3")
)

// statuses are the codes of HTTP and SMTP that stay without a word before them.
var statuses = [600]bool{
	400: true, 401: true, 402: true, 403: true, 404: true, 405: true, 406: true, 407: true, 408: true, 409: true, 410: true, 411: true, 412: true,
	413: true, 414: true, 415: true, 416: true, 417: true, 418: true, 421: true, 422: true, 423: true, 424: true, 425: true, 426: true, 428: true,
	429: true, 431: true, 450: true, 451: true, 452: true, 454: true, 499: true, 500: true, 501: true, 502: true, 503: true, 504: true, 505: true,
	507: true, 508: true, 511: true, 520: true, 521: true, 522: true, 523: true, 524: true, 525: true, 526: true, 530: true, 534: true, 535: true,
	550: true, 551: true, 552: true, 553: true, 554: true, 555: true,
}

func isStatus(w string) bool {
	return len(w) == 3 && w[0] >= '4' && w[0] <= '5' && digit(w[1]) && digit(w[2]) &&
		statuses[int(w[0]-'0')*100+int(w[1]-'0')*10+int(w[2]-'0')]
}

// unitAt reports whether a text begins with a unit or something that is counted.
func unitAt(s string) bool {
	n := 0
	for n < len(s) && s[n] == ' ' {
		n++
	}
	from := n
	for n < len(s) && letter(s[n]) {
		n++
	}
	return from > 0 && units.has(s[from:n])
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }
