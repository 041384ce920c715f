package asynqtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// payloadOf encodes a wanted payload.
func payloadOf(v any) []byte {
	switch v := v.(type) {
	case []byte:
		return v
	case json.RawMessage:
		return v
	case string:
		return []byte(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("asynqtest: encode payload of type %T as JSON: %v", v, err))
	}
	return b
}

// payload compares two payloads, as JSON if both are.
func (all *differences) payload(want, got []byte) {
	if bytes.Equal(want, got) {
		return
	}
	wantValue, ok1 := decodeJSON(want)
	gotValue, ok2 := decodeJSON(got)
	if !ok1 || !ok2 {
		all.add("Payload", "want %s, got %s", excerpt(want), excerpt(got))
		return
	}
	if diff := cmp.Diff(wantValue, gotValue, sameNumber); diff != "" {
		all.add("Payload", "(-want +got)\n%s", strings.TrimRight(diff, "\n"))
	}
}

// sameNumber compares numbers by value, independent of their notation, without losing digits.
var sameNumber = cmp.Comparer(func(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, _, err1 := big.ParseFloat(a.String(), 10, 1024, big.ToNearestEven)
	y, _, err2 := big.ParseFloat(b.String(), 10, 1024, big.ToNearestEven)
	return err1 == nil && err2 == nil && x.Cmp(y) == 0
})

func decodeJSON(b []byte) (v any, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return nil, false
	}
	_, err := decoder.Token()
	return v, err == io.EOF
}

// excerpt formats a payload on one line of limited length.
func excerpt(b []byte) string {
	const most = 200
	if !utf8.Valid(b) {
		if len(b) > most/2 {
			return fmt.Sprintf("%x… (%d bytes)", b[:most/2], len(b))
		}
		return fmt.Sprintf("%x", b)
	}
	if len(b) > most {
		return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(string(b[:most]), ""), len(b))
	}
	if len(b) == 0 {
		return "none"
	}
	return string(b)
}
