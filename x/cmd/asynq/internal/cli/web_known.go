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

// knownFlags are the names that flags have in the existing web UI, and the flags that do here what they do there.
var knownFlags = []struct {
	name, of string
	yesNo    bool
}{
	{name: "redis-addr", of: "uri"},
	{name: "redis-url", of: "uri"},
	{name: "redis-db", of: "db"},
	{name: "redis-password", of: "password"},
	{name: "redis-tls", of: "tls-server"},
	{name: "redis-insecure-tls", of: "insecure", yesNo: true},
	{name: "redis-cluster-nodes", of: "cluster-addrs"},
}

// sameFlags have their name, and their meaning, from there.
var sameFlags = []string{"port", "max-payload-length", "max-result-length", "enable-metrics-exporter", "prometheus-addr", "read-only"}

func addKnownFlags(f *pflag.FlagSet, w *webFlags) {
	f.IntVar(&w.port, "port", 8080, "port to listen on, on the loopback interface: --listen has the others")
	f.IntVar(&w.payloadLength, "max-payload-length", 0, "how many characters of a payload are shown at most; 0 shows all")
	f.IntVar(&w.resultLength, "max-result-length", 0, "how many characters of a result are shown at most; 0 shows all")
	for _, flag := range knownFlags {
		if flag.yesNo {
			f.Bool(flag.name, false, "the same as --"+flag.of)
		} else {
			f.String(flag.name, "", "the same as --"+flag.of)
		}
	}
}

// setKnownFlags gives the flags of the connection the values of their other names.
func setKnownFlags(cmd *cobra.Command) error {
	f := cmd.Flags()
	given := map[string]string{}
	for _, flag := range knownFlags {
		if !f.Changed(flag.name) {
			continue
		}
		if other := given[flag.of]; other != "" {
			return usage("--%s and --%s say the same thing: leave one out", other, flag.name)
		}
		if f.Changed(flag.of) {
			return usage("--%s and --%s are two names of one flag: leave one out", flag.name, flag.of)
		}
		given[flag.of] = flag.name
	}
	for of, name := range given {
		if err := f.Set(of, f.Lookup(name).Value.String()); err != nil {
			return usage("--%s: %v", name, err)
		}
	}
	return nil
}

// setWebEnv sets the flags of the web UI that were not given by their variables: ASYNQ_WEB_LISTEN, and for the names that people know
// from the existing one, REDIS_ADDR. A flag goes before these, in whichever way it was given.
func (a *app) setWebEnv(cmd *cobra.Command) error {
	f := cmd.Flags()
	var err error
	set := func(flag *pflag.Flag, variable string) {
		text, ok := a.Env(variable)
		if err != nil || flag.Changed || !ok || text == "" {
			return
		}
		values := []string{text}
		if flag.Name == "user" {
			values = strings.Split(strings.TrimSpace(text), "\n")
		}
		for _, value := range values {
			if f.Set(flag.Name, value) != nil {
				err = usage("%s is no value for --%s", variable, flag.Name) // the text may be a password
			}
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			set(flag, conn.EnvName("web-"+flag.Name))
		}
	})
	for _, name := range sameFlags {
		if name != "port" || !f.Changed("listen") {
			set(f.Lookup(name), known(name))
		}
	}
	for _, flag := range knownFlags {
		if _, own := a.Env(conn.EnvName(flag.of)); !own && !f.Changed(flag.of) && !a.sameGiven(cmd, flag.of) {
			set(f.Lookup(flag.name), known(flag.name))
		}
	}
	return err
}

// sameGiven says whether another name of the flag was given.
func (a *app) sameGiven(cmd *cobra.Command, of string) bool {
	for _, flag := range knownFlags {
		if flag.of == of && cmd.Flags().Changed(flag.name) {
			return true
		}
	}
	return false
}

// known is the variable of a flag in the existing web UI.
func known(flag string) string { return strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) }

// formatters shorten payloads and results, if that was asked for.
func (w *webFlags) formatters() {
	if n := w.payloadLength; n > 0 {
		w.ui.PayloadFormatter = web.PayloadFormatterFunc(func(_ string, data []byte) string { return shortText(data, n) })
	}
	if n := w.resultLength; n > 0 {
		w.ui.ResultFormatter = web.ResultFormatterFunc(func(_ string, data []byte) string { return shortText(data, n) })
	}
}

// shortText is the text of at most n characters, or as many digits of what is none.
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
