package ui

import (
	"net/http"
	"strings"
)

const themeCookie = "asynq_theme"

// theme returns the theme in the user's settings: light, dark, or empty for the system's.
func theme(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

// setTheme stores a theme and redirects to the page where it was chosen.
func (u *UI) setTheme(w http.ResponseWriter, r *http.Request) (*view, error) {
	chosen := r.PostForm.Get("theme")
	if chosen != "light" && chosen != "dark" && chosen != "" {
		return nil, invalid("Unknown theme %q.", chosen)
	}
	http.SetCookie(w, u.cookie(r, themeCookie, chosen, 10*365*24*3600))
	http.Redirect(w, r, u.back(r), http.StatusSeeOther)
	return nil, nil
}

// back returns the page that a form was sent from, as named by the form. It cannot be on another
// site.
func (u *UI) back(r *http.Request) string {
	back := r.PostForm.Get("back")
	if !strings.HasPrefix(back, u.Root+"/") || strings.HasPrefix(back, "//") || strings.ContainsAny(back, "\\\r\n\t") {
		return u.Root + "/"
	}
	return back
}
