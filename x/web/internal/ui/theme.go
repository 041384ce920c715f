package ui

import (
	"net/http"
	"strings"
)

const themeCookie = "asynq_theme"

// theme is the look that who asks has chosen: light, dark, or empty for that of the system.
func theme(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

// setTheme keeps the chosen look, and goes back to where it was chosen.
func (u *UI) setTheme(w http.ResponseWriter, r *http.Request) (*view, error) {
	chosen := r.PostForm.Get("theme")
	if chosen != "light" && chosen != "dark" && chosen != "" {
		return nil, invalid("There is no look %q.", chosen)
	}
	http.SetCookie(w, u.cookie(r, themeCookie, chosen, 10*365*24*3600))
	http.Redirect(w, r, u.back(r), http.StatusSeeOther)
	return nil, nil
}

// back is the page that a form was sent from, as it says itself. No other site can be named.
func (u *UI) back(r *http.Request) string {
	back := r.PostForm.Get("back")
	if !strings.HasPrefix(back, u.Root+"/") || strings.HasPrefix(back, "//") || strings.ContainsAny(back, "\\\r\n\t") {
		return u.Root + "/"
	}
	return back
}
