package hosted

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// secretPrefix marks secrets in Base64, as in the Standard Webhooks specification.
const secretPrefix = "whsec_"

// signingKey returns the key of a secret.
func signingKey(secret string) ([]byte, error) {
	if encoded, ok := strings.CutPrefix(secret, secretPrefix); ok {
		return base64.StdEncoding.DecodeString(encoded)
	}
	return []byte(secret), nil
}

// signature returns the value of the header Webhook-Signature: a version and the HMAC-SHA256 of ID,
// time in seconds and body, joined by dots. Neither ID nor time contains a dot, so the signed text
// is unambiguous.
func signature(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
