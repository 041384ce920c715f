package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultSessionIdle is the default of Config.SessionIdle.
	DefaultSessionIdle = 8 * time.Hour
	// DefaultSessionMax is the default of Config.SessionMax.
	DefaultSessionMax = 24 * time.Hour
	// maxSessions bounds the memory of all sessions to a few megabytes.
	maxSessions = 10_000
)

// session is a browser that is logged in.
type session struct {
	user User
	via  string             // how the user logged in: form or provider
	set  []byte             // MAC of the configured password of the user; nil for users of a provider
	used time.Time          // of the last request
	ctx  context.Context    // ends with the session; requests of the session end with it
	end  context.CancelFunc // ends ctx
}

// sessions are the sessions of all users who logged in on the login page. They are in memory: a
// restart logs all users out.
type sessions struct {
	idle, max time.Duration

	mu    sync.Mutex
	byID  map[[sha256.Size]byte]*session // by the digest of the ID
	swept time.Time                      // when expired sessions were removed
}

func newSessions(idle, most time.Duration) *sessions {
	return &sessions{idle: idle, max: most, byID: map[[sha256.Size]byte]*session{}}
}

// create returns the ID of a new session: 256 random bits.
func (s *sessions) create(u User, via string, set []byte) string {
	id := random()
	now := time.Now()
	ctx, end := context.WithDeadline(context.Background(), now.Add(s.max))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(now)
	s.byID[sha256.Sum256([]byte(id))] = &session{user: u, via: via, set: set, used: now, ctx: ctx, end: end}
	return id
}

// find returns the session with an ID, or nil, and extends its idle time.
func (s *sessions) find(id string) *session {
	key, now := sha256.Sum256([]byte(id)), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byID[key]
	if found == nil {
		return nil
	}
	if s.expired(found, now) {
		s.remove(key)
		return nil
	}
	found.used = now
	return found
}

// drop ends the session with an ID, if there is one.
func (s *sessions) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(sha256.Sum256([]byte(id)))
}

// dropIf ends all sessions for which the function returns true.
func (s *sessions) dropIf(invalid func(*session) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, one := range s.byID {
		if invalid(one) {
			s.remove(key)
		}
	}
}

func (s *sessions) remove(key [sha256.Size]byte) {
	if one := s.byID[key]; one != nil {
		one.end()
		delete(s.byID, key)
	}
}

func (s *sessions) expired(one *session, now time.Time) bool {
	return one.ctx.Err() != nil || now.Sub(one.used) >= s.idle
}

// makeRoom removes expired sessions and, if there are still too many, the one that has been idle
// for the longest time. It scans all sessions at most once a minute, unless there are too many.
func (s *sessions) makeRoom(now time.Time) {
	if now.Sub(s.swept) < time.Minute && len(s.byID) < maxSessions {
		return
	}
	s.swept = now
	var oldest [sha256.Size]byte
	var used time.Time
	for key, one := range s.byID {
		if s.expired(one, now) {
			s.remove(key)
		} else if used.IsZero() || one.used.Before(used) {
			oldest, used = key, one.used
		}
	}
	if len(s.byID) >= maxSessions {
		s.remove(oldest)
	}
}

// random returns 256 random bits for a cookie.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// cookieOf returns the name of a cookie with the port in it, since browsers send the cookies of a
// host to all of its ports.
func cookieOf(r *http.Request, name string) string {
	at := strings.LastIndexByte(r.Host, ':')
	port := r.Host[at+1:]
	if at < 0 || port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != "" {
		return name
	}
	return name + "_" + port
}

// loginCookie is the name of the cookie with the ID of a session.
const loginCookie = "asynq_login"

// setCookie sets a cookie that scripts cannot read. Lax lets the browser send it when it follows a
// link of another site, such as the redirect of a provider.
func (g *Guard) setCookie(w http.ResponseWriter, r *http.Request, name, value, path string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieOf(r, name), Value: value, Path: g.cfg.RootPath + path, MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: overTLS(r),
	})
}

// overTLS reports whether the browser uses TLS, to this process or to a proxy. Any client can set
// these headers, but they affect only its own cookies.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// session returns the session of a request, or nil. The role and the existence of users with a
// password are those of the current users.
func (g *Guard) session(r *http.Request) *session {
	if g.sessions == nil {
		return nil
	}
	for _, c := range r.CookiesNamed(cookieOf(r, loginCookie)) {
		if s := g.sessions.find(c.Value); s != nil && g.valid(s) {
			return s
		}
	}
	return nil
}

// valid reports whether the user of a session may still log in: a user with a password must still
// have the same one.
func (g *Guard) valid(s *session) bool {
	if s.set == nil {
		return true
	}
	a, _ := g.passwords.account(s.user.Name)
	return a != nil && hmac.Equal(a.set, s.set)
}

// current returns the user of a session with the current role.
func (g *Guard) current(s *session) User {
	if s.set != nil {
		if a, _ := g.passwords.account(s.user.Name); a != nil {
			return a.user
		}
		return User{Name: s.user.Name}
	}
	return s.user
}

// within returns a request that ends with its session, and a function to call after the request.
func within(r *http.Request, s *session) (*http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.ctx, cancel)
	return r.WithContext(ctx), func() {
		stop()
		cancel()
	}
}
