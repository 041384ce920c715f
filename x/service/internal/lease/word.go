// Package lease lets workers in any language take tasks over HTTP: by long poll, with leases that they extend and settle.
package lease

import (
	"encoding/base64"
	"encoding/binary"
)

// A lease is one word for clients: version, queue, ID and token, in base64 of letters, digits, "-" and "_". Only the token is a secret.
// Nobody keeps it but the worker.

const version = 1

// pack makes the word of a lease.
func pack(queue, id, token string) string {
	buf := make([]byte, 0, 1+2*binary.MaxVarintLen32+len(queue)+len(id)+len(token))
	buf = append(buf, version)
	buf = binary.AppendUvarint(buf, uint64(len(queue)))
	buf = append(buf, queue...)
	buf = binary.AppendUvarint(buf, uint64(len(id)))
	buf = append(buf, id...)
	buf = append(buf, token...)
	return base64.RawURLEncoding.EncodeToString(buf)
}

// unpack takes a word apart.
func unpack(word string) (queue, id, token string, ok bool) {
	buf, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil || len(buf) == 0 || buf[0] != version {
		return "", "", "", false
	}
	buf = buf[1:]
	part := func() (string, bool) {
		n, size := binary.Uvarint(buf)
		if size <= 0 || n == 0 || n > uint64(len(buf)-size) {
			return "", false
		}
		text := string(buf[size : size+int(n)])
		buf = buf[size+int(n):]
		return text, true
	}
	if queue, ok = part(); !ok {
		return "", "", "", false
	}
	if id, ok = part(); !ok || len(buf) == 0 {
		return "", "", "", false
	}
	return queue, id, string(buf), true
}
