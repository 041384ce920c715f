package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// probeDefaults are the health checks of the servers at their default ports.
var probeDefaults = []string{
	"http://127.0.0.1:8600/healthz", // service
	"http://127.0.0.1:8080/healthz", // web
	"http://127.0.0.1:9876/healthz", // exporter
}

func newProbe(a *app) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "probe [URL]",
		Short: "Check the health of asynq service, web or exporter",
		Long: `probe requests a URL and succeeds if the status of the response is 2xx. It is the health check of
containers, which have no other HTTP client. It does not follow redirects and uses no proxy.

Without a URL, it requests /healthz at the default ports of asynq service, web and exporter on this
machine, and succeeds if one of them does.

Of the connection flags, only --insecure applies: it accepts any certificate of an https URL.`,
		Example: "  asynq probe\n  asynq probe http://127.0.0.1:8600/readyz\n  asynq probe --wait 1s --insecure https://127.0.0.1:8443/healthz",
		Args:    argsFrom(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait <= 0 {
				return usage("--wait must be greater than 0")
			}
			for _, arg := range args {
				if u, err := url.Parse(arg); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
					return usage("%q is not an http or https URL", arg)
				}
			}
			insecure, err := cmd.Flags().GetBool("insecure")
			if err != nil {
				return err
			}
			if len(args) == 0 {
				args = probeDefaults
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			return probe(ctx, probeClient(insecure), args)
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 3*time.Second, "time limit of the check")
	return cmd
}

// probeClient returns a client that makes one connection per request.
func probeClient(insecure bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: insecure, MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// probe returns nil if one of the URLs responds with success, and otherwise the errors of all.
func probe(ctx context.Context, client *http.Client, urls []string) error {
	results := make(chan error, len(urls))
	for _, u := range urls {
		go func() { results <- probeOne(ctx, client, u) }()
	}
	var failed []string
	for range urls {
		err := <-results
		if err == nil {
			return nil
		}
		failed = append(failed, err.Error())
	}
	slices.Sort(failed)
	return errors.New(strings.Join(failed, "; ")) // unwrapped: it is not about Redis
}

func probeOne(ctx context.Context, client *http.Client, at string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		if cause := (*url.Error)(nil); errors.As(err, &cause) {
			err = cause.Err // without the URL
		}
		return fmt.Errorf("%s: %w", at, err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 1<<16) // only the status counts
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%s: status %s", at, response.Status)
	}
	return nil
}
