package cli

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/openid"
	"github.com/asynq-go/asynq/x/web"
)

// openidFlags are the flags of logins at an OpenID Connect provider.
type openidFlags struct {
	openid.Config
	secretFile string
	roles      []string // GROUP=ROLE
	role       string   // of users without a group in roles
}

func (o *openidFlags) add(f *pflag.FlagSet) {
	f.StringVar(&o.Issuer, "oidc-issuer", "", "URL of an OpenID Connect provider at which users log in")
	f.StringVar(&o.ClientID, "oidc-client-id", "", "client ID of the web UI at the provider")
	f.StringVar(&o.secretFile, "oidc-secret-file", "", "file with the client secret; none for a public client")
	f.StringVar(&o.RedirectURL, "oidc-redirect-url", "", "URL of the web UI followed by /login/callback, as registered at the provider")
	f.StringSliceVar(&o.Scopes, "oidc-scope", []string{"profile", "email"}, "scope requested in addition to openid; repeatable")
	f.StringVar(&o.RoleClaim, "oidc-role-claim", "groups", "claim of the ID token with the groups of the user; dots separate nested claims")
	f.StringArrayVar(&o.roles, "oidc-role", nil, "role of a group as GROUP=ROLE; repeatable")
	f.StringVar(&o.role, "oidc-default-role", "", "role of users without any of these groups (default none)")
	f.StringVar(&o.NameClaim, "oidc-name-claim", "", "claim with the user name (default preferred_username, else email, else sub)")
	f.StringVar(&o.Label, "oidc-label", "", "name of the provider on the login page (default its host)")
}

// provider returns the provider of the flags; nil if there is none.
func (o *openidFlags) provider(rootPath string) (_ *openid.Provider, err error) {
	if o.Issuer == "" {
		if o.ClientID != "" || o.RedirectURL != "" || o.secretFile != "" || len(o.roles) > 0 || o.role != "" {
			return nil, usage("the flags --oidc-… require --oidc-issuer")
		}
		return nil, nil
	}
	if o.Role, err = roleOf("--oidc-default-role", o.role); err != nil {
		return nil, err
	}
	o.Roles = make(map[string]web.Role, len(o.roles))
	for _, text := range o.roles {
		at := strings.LastIndexByte(text, '=')
		if at <= 0 {
			return nil, usage("--oidc-role: %q does not have the form GROUP=ROLE", text)
		}
		if o.Roles[text[:at]], err = roleOf("--oidc-role", text[at+1:]); err != nil {
			return nil, err
		}
	}
	if o.secretFile != "" {
		secret, err := os.ReadFile(o.secretFile)
		if err != nil {
			return nil, usage("--oidc-secret-file: %v", err)
		}
		if o.Secret = strings.TrimSpace(string(secret)); o.Secret == "" {
			return nil, usage("--oidc-secret-file: %s is empty", o.secretFile)
		}
	}
	p, err := openid.New(o.Config)
	if err != nil {
		return nil, usage("OpenID Connect: %v", err)
	}
	if u, err := url.Parse(o.RedirectURL); err != nil || u.Path != rootPath+"/login/callback" {
		return nil, usage("--oidc-redirect-url: the path must be %s/login/callback", rootPath)
	}
	return p, nil
}

// discover logs a provider that is unreachable.
func discover(ctx context.Context, p *openid.Provider, log *slog.Logger) {
	if err := p.Discover(ctx); err != nil {
		log.Warn("the OpenID Connect provider is unreachable; each login connects again", "error", err)
	}
}
