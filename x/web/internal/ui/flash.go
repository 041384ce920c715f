package ui

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// flash is a message for the next page: the result of the last change.
type flash struct {
	Text           string
	Bad            bool
	Link, LinkText string // a page with details, below the root path
}

const flashCookie = "asynq_said"

// say stores a message for the next page.
func (u *UI) say(w http.ResponseWriter, r *http.Request, f flash) {
	const most = 1000 // a cookie can have 4,096 bytes
	if runes := []rune(f.Text); len(runes) > most {
		f.Text = string(runes[:most]) + "…"
	}
	if len(f.Link) > most {
		f.Link = "" // only long names make the cookie too large
	}
	text, err := json.Marshal(f)
	if err != nil {
		return // cannot fail: strings and a bool
	}
	http.SetCookie(w, u.cookie(r, flashCookie, base64.RawURLEncoding.EncodeToString(text), 60))
}

// takeFlash returns the stored message and removes it. Background requests by scripts do not remove
// it.
func takeFlash(w http.ResponseWriter, r *http.Request, root string) *flash {
	c, err := r.Cookie(flashCookie)
	if err != nil || r.Header.Get("HX-Request") != "" || r.Header.Get("X-Search-Part") != "" {
		return nil
	}
	http.SetCookie(w, &http.Cookie{Name: flashCookie, Path: root + "/", MaxAge: -1})
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return nil
	}
	var f flash
	if json.Unmarshal(text, &f) != nil || f.Text == "" {
		return nil
	}
	if !strings.HasPrefix(f.Link, "/") || strings.HasPrefix(f.Link, "//") || strings.Contains(f.Link, `\`) {
		f.Link = ""
	}
	return &f
}

// cookie returns a cookie for the path of the pages, valid for the given number of seconds.
func (u *UI) cookie(r *http.Request, name, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: u.Root + "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	}
}
