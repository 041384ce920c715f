package ui

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// flash is one sentence that the next page says: what came of the change before it.
type flash struct {
	Text           string
	Bad            bool
	Link, LinkText string // a page with more about it, below the root path
}

const flashCookie = "asynq_said"

// say has the next page say a sentence.
func (u *UI) say(w http.ResponseWriter, r *http.Request, f flash) {
	const most = 1000 // a cookie has room for 4,096 bytes
	if runes := []rune(f.Text); len(runes) > most {
		f.Text = string(runes[:most]) + "…"
	}
	if len(f.Link) > most {
		f.Link = "" // it is long names that do not fit
	}
	text, err := json.Marshal(f)
	if err != nil {
		return // it is strings and a bool
	}
	http.SetCookie(w, u.cookie(r, flashCookie, base64.RawURLEncoding.EncodeToString(text), 60))
}

// takeFlash reads what is to be said, and has it said once. A script that looks at a page in the background leaves it to the next page.
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

// cookie is a cookie for the pages alone, for so many seconds.
func (u *UI) cookie(r *http.Request, name, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: u.Root + "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	}
}
