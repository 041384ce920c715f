package hosted

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// secretPrefix begins secrets that are Base64, as the Standard Webhooks specification writes them.
const secretPrefix = "whsec_"

// signingKey is the key of a secret.
func signingKey(secret string) ([]byte, error) {
	if encoded, ok := strings.CutPrefix(secret, secretPrefix); ok {
		return base64.StdEncoding.DecodeString(encoded)
	}
	return []byte(secret), nil
}

// signature is the value of the header webhook-signature: a version, and the HMAC-SHA256 over the ID, the time in seconds and the body,
// with dots between. Neither the ID nor the time contains a dot, so no two requests have the same text.
func signature(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
