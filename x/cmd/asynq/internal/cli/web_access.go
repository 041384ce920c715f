package cli

import (
	"bufio"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/asynq-go/asynq/x/internal/reload"
	"github.com/asynq-go/asynq/x/web"
)

// access configures access from the flags.
func (w *webFlags) access() (err error) {
	if w.ui.Anonymous, err = roleOf("--anonymous", w.anyone); err != nil {
		return err
	}
	if w.proxy.Role, err = roleOf("--proxy-role", w.role); err != nil {
		return err
	}
	p := &w.proxy
	switch {
	case len(p.From) > 0:
		w.ui.Proxy = p
	case p.UserHeader != "" || p.RoleHeader != "" || p.Role != web.None:
		return usage("--user-header, --role-header and --proxy-role require --trusted-proxy")
	}
	for _, text := range w.users {
		u, err := parseUser("--user", 0, text)
		if err != nil {
			return err
		}
		w.ui.Users = append(w.ui.Users, u)
	}
	if w.file == "" {
		return nil
	}
	w.reload = reload.Watch(w.file)
	fromFile, err := readUsers(w.file)
	if err != nil {
		return err
	}
	w.flagUsers = w.ui.Users
	w.ui.Users = append(slices.Clone(w.flagUsers), fromFile...)
	if len(w.ui.Users) == 0 {
		return usage("--users-file: %s has no users", w.file)
	}
	return nil
}

// readUsers reads the users in a file.
func readUsers(path string) ([]web.User, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("--users-file: %v", err)
	}
	defer f.Close()
	var users []web.User
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		u, err := parseUser(path, n, line)
		if err != nil {
			return nil, err
		}
		users = append(users, u)
	}
	if err := lines.Err(); err != nil {
		return nil, usage("--users-file: %v", err)
	}
	return users, nil
}

// reloadingUI is the web UI with a users file that is read again after it changed.
type reloadingUI struct {
	*web.Handler
	flags *webFlags
}

// ServeHTTP reads the users file if it has changed.
func (ui *reloadingUI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ui.flags.reloadUsers(ui.SetUsers)
	ui.Handler.ServeHTTP(w, r)
}

// reloadUsers reads the users file if it has changed. If it is invalid, the previous users remain.
func (w *webFlags) reloadUsers(set func([]web.User) error) {
	if !w.reload.Changed() {
		return
	}
	users, err := readUsers(w.file)
	if err == nil {
		err = set(append(slices.Clone(w.flagUsers), users...))
	}
	if err != nil {
		w.ui.Logger.Error("users file not reloaded; the previous users remain", "error", err)
		return
	}
	w.ui.Logger.Info("users file reloaded", "file", w.file, "users", len(users))
}

// parseUser parses NAME:ROLE:PASSWORD. Errors do not repeat the text, which contains a password.
func parseUser(where string, line int, text string) (web.User, error) {
	at := func(format string, args ...any) error {
		if line > 0 {
			return usage("%s, line %d: "+format, append([]any{where, line}, args...)...)
		}
		return usage("%s: "+format, append([]any{where}, args...)...)
	}
	name, rest, _ := strings.Cut(text, ":")
	role, password, ok := strings.Cut(rest, ":")
	if !ok || name == "" || password == "" {
		return web.User{}, at("invalid user: use the form NAME:ROLE:PASSWORD")
	}
	u := web.User{Name: name, Password: password}
	if err := u.Role.UnmarshalText([]byte(role)); err != nil || u.Role == web.None {
		return web.User{}, at("invalid role of user %q: use viewer, operator or admin", name)
	}
	return u, nil
}

func roleOf(flag, name string) (web.Role, error) {
	var r web.Role
	if name == "" {
		return r, nil
	}
	if err := r.UnmarshalText([]byte(name)); err != nil {
		return r, usage("%s: %v", flag, err)
	}
	return r, nil
}

// guarded reports whether access is configured.
func (w *webFlags) guarded() bool {
	return len(w.ui.Users) > 0 || w.ui.Provider != nil || w.ui.Proxy != nil && w.ui.Proxy.UserHeader != "" || w.ui.Anonymous != web.None
}
