// Package openid lets users of the web UI log in at an OpenID Connect provider: the authorization
// code flow with PKCE.
package openid

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/asynq-go/asynq/x/web"
)

// requestTimeout bounds each request to the provider.
const requestTimeout = 10 * time.Second

// Config configures a Provider. Issuer, ClientID, RedirectURL, and Roles or Role are required.
type Config struct {
	// Issuer is the URL of the provider, exactly as it appears in its tokens.
	Issuer string

	// ClientID and Secret identify the web UI at the provider. The secret of a public client is
	// empty.
	ClientID, Secret string

	// RedirectURL is the URL of the web UI followed by "/login/callback", as registered at the
	// provider.
	RedirectURL string

	// Scopes are requested in addition to "openid".
	Scopes []string

	// NameClaim is the claim of the ID token with the user's name. If empty, it is the first of
	// preferred_username, email and sub that the token has.
	NameClaim string

	// RoleClaim is the claim of the ID token with the user's groups: a text or a list of texts.
	// Dots separate the names of nested claims. Roles maps groups to roles; the highest one
	// applies. Role is the role of users without any of these groups.
	RoleClaim string
	Roles     map[string]web.Role
	Role      web.Role

	// Label is the name of the provider on the login page. The default is the host of Issuer.
	Label string

	// Client sends the requests. The default is a client with a timeout of 10 seconds.
	Client *http.Client
}

// Provider is a web.LoginProvider. It requests the configuration of the provider at the first use,
// and again after a failure.
type Provider struct {
	cfg Config

	mu    sync.Mutex
	found *discovered // nil before the first success
}

// discovered is the configuration of the provider.
type discovered struct {
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	logout   string
}

// New returns a provider, or an error that names an invalid field. It sends no request.
func New(cfg Config) (*Provider, error) {
	issuer, err := secureURL(cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("the issuer %w", err)
	}
	if _, err := secureURL(cfg.RedirectURL); err != nil {
		return nil, fmt.Errorf("the redirect URL %w", err)
	}
	switch {
	case cfg.ClientID == "":
		return nil, errors.New("the client ID is missing")
	case len(cfg.Roles) > 0 && cfg.RoleClaim == "":
		return nil, errors.New("the claim with the groups is missing")
	case len(cfg.Roles) == 0 && cfg.Role == web.None:
		return nil, errors.New("no user would have a role: map a group to a role, or set the default role")
	}
	if cfg.Label == "" {
		cfg.Label = issuer.Host
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: requestTimeout}
	}
	return &Provider{cfg: cfg}, nil
}

// secureURL parses a URL that uses TLS, or the loopback interface.
func secureURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("is missing")
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("%q is not a URL such as https://id.example.com", text)
	case u.Scheme == "https":
		return u, nil
	case u.Scheme == "http" && (u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") || u.Hostname() == "::1"):
		return u, nil
	}
	return nil, fmt.Errorf("%q must use https, except on the loopback interface", text)
}

// Name returns the label on the login page.
func (p *Provider) Name() string { return p.cfg.Label }

// Discover requests the configuration of the provider, unless it is known.
func (p *Provider) Discover(ctx context.Context) error {
	_, err := p.discover(ctx)
	return err
}

func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	// The keys of the provider are requested later, so they must not depend on the end of ctx.
	found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.cfg.Client), p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", p.cfg.Issuer, err)
	}
	var more struct {
		Logout string `json:"end_session_endpoint"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", p.cfg.Issuer, err)
	}
	p.found = &discovered{
		oauth: oauth2.Config{
			ClientID: p.cfg.ClientID, ClientSecret: p.cfg.Secret, RedirectURL: p.cfg.RedirectURL, Endpoint: found.Endpoint(),
			Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
		},
		verifier: found.Verifier(&oidc.Config{ClientID: p.cfg.ClientID}),
	}
	if u, err := secureURL(more.Logout); err == nil {
		query := u.Query()
		query.Set("client_id", p.cfg.ClientID)
		u.RawQuery = query.Encode()
		p.found.logout = u.String()
	}
	return p.found, nil
}

// LoginURL returns the URL of the provider's login page.
func (p *Provider) LoginURL(ctx context.Context, l web.ProviderLogin) (string, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return found.oauth.AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)), nil
}

// User exchanges the code of a callback for an ID token and returns its user.
func (p *Provider) User(ctx context.Context, l web.ProviderLogin, query url.Values) (web.User, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return web.User{}, err
	}
	ctx = oidc.ClientContext(ctx, p.cfg.Client)
	token, err := found.oauth.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(l.Verifier))
	if err != nil {
		return web.User{}, fmt.Errorf("exchanging the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return web.User{}, errors.New("the provider returned no ID token")
	}
	id, err := found.verifier.Verify(ctx, raw)
	if err != nil {
		return web.User{}, fmt.Errorf("verifying the ID token: %w", err)
	}
	if id.Nonce != l.Nonce {
		return web.User{}, errors.New("the ID token has the nonce of another login")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return web.User{}, fmt.Errorf("reading the claims of the ID token: %w", err)
	}
	name, err := p.name(claims)
	return web.User{Name: name, Role: p.role(claims)}, err
}

// name returns the name of the user.
func (p *Provider) name(claims map[string]any) (string, error) {
	names := []string{"preferred_username", "email", "sub"}
	if p.cfg.NameClaim != "" {
		names = []string{p.cfg.NameClaim}
	}
	for _, claim := range names {
		if verified, ok := claims["email_verified"].(bool); claim == "email" && ok && !verified {
			continue // anyone may have entered it
		}
		if name, _ := claims[claim].(string); name != "" {
			return name, nil
		}
	}
	return "", fmt.Errorf("the ID token has no claim %s", strings.Join(names, ", "))
}

// role returns the highest role of the user's groups, or the default role without any.
func (p *Provider) role(claims map[string]any) web.Role {
	role, found := web.None, false
	for _, group := range groups(claims, p.cfg.RoleClaim) {
		if of, ok := p.cfg.Roles[group]; ok {
			role, found = max(role, of), true
		}
	}
	if !found {
		return p.cfg.Role
	}
	return role
}

// groups returns the texts in a claim. Some providers use URLs with dots as names of claims, so a
// name is first read as a whole.
func groups(claims map[string]any, claim string) (all []string) {
	value, ok := claims[claim]
	if outer, inner, nested := strings.Cut(claim, "."); !ok && nested {
		more, _ := claims[outer].(map[string]any)
		return groups(more, inner)
	}
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		for _, one := range value {
			if text, ok := one.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

// LogoutURL returns the URL that logs the user out of the provider. It is empty if the provider has
// none, or was not yet reachable.
func (p *Provider) LogoutURL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		return ""
	}
	return p.found.logout
}
