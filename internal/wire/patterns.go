package wire

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Limits of the patterns that a server publishes, every few seconds.
const (
	maxPatterns     = 1000
	maxPatternBytes = 64 << 10
)

// EncodePatterns returns the patterns of types that a server handles, as a JSON array. It omits
// those that match no valid type. It reports false if they are too many to be published.
func EncodePatterns(patterns []string) (text []byte, ok bool) {
	valid := make([]string, 0, min(len(patterns), maxPatterns))
	for _, p := range patterns {
		if utf8.ValidString(p) {
			if valid = append(valid, p); len(valid) > maxPatterns {
				return nil, false
			}
		}
	}
	text, err := json.Marshal(valid)
	return text, err == nil && len(text) <= maxPatternBytes
}

// DecodePatterns decodes the result of EncodePatterns. The patterns are not nil.
func DecodePatterns(text string) (patterns []string, ok bool) {
	if err := json.Unmarshal([]byte(text), &patterns); err != nil || patterns == nil {
		return nil, false
	}
	return patterns, true
}

// MatchesPattern reports whether one of the patterns matches a type: if the type begins with it.
func MatchesPattern(patterns []string, typename string) bool {
	for _, p := range patterns {
		if strings.HasPrefix(typename, p) {
			return true
		}
	}
	return false
}
