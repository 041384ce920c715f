package cli

import (
	"bufio"
	"os"
	"strings"

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
		if err := w.addUser("--user", 0, text); err != nil {
			return err
		}
	}
	if w.file == "" {
		return nil
	}
	f, err := os.Open(w.file)
	if err != nil {
		return usage("--users-file: %v", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if err := w.addUser(w.file, n, line); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return usage("--users-file: %v", err)
	}
	if len(w.ui.Users) == 0 {
		return usage("--users-file: %s has no users", w.file)
	}
	return nil
}

// addUser parses NAME:ROLE:PASSWORD. Errors do not repeat the text, which contains a password.
func (w *webFlags) addUser(where string, line int, text string) error {
	at := func(format string, args ...any) error {
		if line > 0 {
			return usage("%s, line %d: "+format, append([]any{where, line}, args...)...)
		}
		return usage("%s: "+format, append([]any{where}, args...)...)
	}
	name, rest, _ := strings.Cut(text, ":")
	role, password, ok := strings.Cut(rest, ":")
	if !ok || name == "" || password == "" {
		return at("invalid user: use the form NAME:ROLE:PASSWORD")
	}
	u := web.User{Name: name, Password: password}
	if err := u.Role.UnmarshalText([]byte(role)); err != nil || u.Role == web.None {
		return at("invalid role of user %q: use viewer, operator or admin", name)
	}
	w.ui.Users = append(w.ui.Users, u)
	return nil
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
	return len(w.ui.Users) > 0 || w.ui.Proxy != nil && w.ui.Proxy.UserHeader != "" || w.ui.Anonymous != web.None
}
