package cli

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/conn"
	"github.com/asynq-go/asynq/x/web"
)

// aliasFlags are the flags of the existing web UI, and the flags of this program that they set.
var aliasFlags = []struct {
	name, of string
	isBool   bool
}{
	{name: "redis-addr", of: "uri"},
	{name: "redis-url", of: "uri"},
	{name: "redis-db", of: "db"},
	{name: "redis-password", of: "password"},
	{name: "redis-tls", of: "tls-server"},
	{name: "redis-insecure-tls", of: "insecure", isBool: true},
	{name: "redis-cluster-nodes", of: "cluster-addrs"},
}

// sharedFlags have the same name and meaning in the existing web UI.
var sharedFlags = []string{"port", "max-payload-length", "max-result-length", "enable-metrics-exporter", "prometheus-addr", "read-only"}

func addAliasFlags(f *pflag.FlagSet, w *webFlags) {
	f.IntVar(&w.port, "port", 8080, "port to listen on, on the loopback interface; for other interfaces use --listen")
	f.IntVar(&w.payloadLength, "max-payload-length", 0, "maximum number of payload characters to show; 0 means no limit")
	f.IntVar(&w.resultLength, "max-result-length", 0, "maximum number of result characters to show; 0 means no limit")
	for _, flag := range aliasFlags {
		if flag.isBool {
			f.Bool(flag.name, false, "the same as --"+flag.of)
		} else {
			f.String(flag.name, "", "the same as --"+flag.of)
		}
	}
}

// setAliasFlags sets the connection flags from their aliases.
func setAliasFlags(cmd *cobra.Command) error {
	f := cmd.Flags()
	given := map[string]string{}
	for _, flag := range aliasFlags {
		if !f.Changed(flag.name) {
			continue
		}
		if other := given[flag.of]; other != "" {
			return usage("--%s and --%s are aliases: use only one of them", other, flag.name)
		}
		if f.Changed(flag.of) {
			return usage("--%s and --%s are aliases: use only one of them", flag.name, flag.of)
		}
		given[flag.of] = flag.name
	}
	for of, name := range given {
		if err := f.Set(of, f.Lookup(name).Value.String()); err != nil {
			return usage("%w", flagError(name, err))
		}
	}
	return nil
}

// setWebEnv sets flags that the command line omits from their environment variables:
// ASYNQ_WEB_LISTEN, and for the names of the existing web UI, REDIS_ADDR. A flag takes precedence
// over all variables.
func (a *app) setWebEnv(cmd *cobra.Command) error {
	f := cmd.Flags()
	var err error
	set := func(flag *pflag.Flag, variable string) {
		text, ok := a.Env(variable)
		if err != nil || flag.Changed || !ok || text == "" {
			return
		}
		values := []string{text}
		if flag.Name == "user" || flag.Name == "oidc-role" || flag.Name == "threshold" {
			values = strings.Split(strings.TrimSpace(text), "\n")
		}
		for _, value := range values {
			if f.Set(flag.Name, value) != nil {
				err = usage("%s: invalid value for --%s", variable, flag.Name) // without the value, which may be a password
			}
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			set(flag, conn.EnvName("web-"+flag.Name))
		}
	})
	for _, name := range sharedFlags {
		if name != "port" || !f.Changed("listen") {
			set(f.Lookup(name), aliasEnv(name))
		}
	}
	for _, flag := range aliasFlags {
		if _, own := a.Env(conn.EnvName(flag.of)); !own && !f.Changed(flag.of) && !a.aliasSet(cmd, flag.of) {
			set(f.Lookup(flag.name), aliasEnv(flag.name))
		}
	}
	return err
}

// aliasSet reports whether an alias of the flag is set.
func (a *app) aliasSet(cmd *cobra.Command, of string) bool {
	for _, flag := range aliasFlags {
		if flag.of == of && cmd.Flags().Changed(flag.name) {
			return true
		}
	}
	return false
}

// aliasEnv returns the variable of a flag in the existing web UI.
func aliasEnv(flag string) string { return strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) }

// formatters sets formatters that truncate payloads and results to the configured lengths.
func (w *webFlags) formatters() {
	if n := w.payloadLength; n > 0 {
		w.ui.PayloadFormatter = web.PayloadFormatterFunc(func(_ string, data []byte) string { return shortText(data, n) })
	}
	if n := w.resultLength; n > 0 {
		w.ui.ResultFormatter = web.ResultFormatterFunc(func(_ string, data []byte) string { return shortText(data, n) })
	}
}

// shortText truncates text to n characters. Data that is not UTF-8 is shown in hex.
func shortText(data []byte, n int) string {
	text := string(data)
	if !utf8.Valid(data) {
		text = hex.EncodeToString(data[:min(len(data), n)])
	}
	at := 0
	for i := range text {
		if at == n {
			return text[:i] + "…"
		}
		at++
	}
	return text
}
