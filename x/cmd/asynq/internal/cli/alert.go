package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/alert"
	"github.com/asynq-go/asynq/x/health"
)

// alertFlags are the flags of alerts.
type alertFlags struct {
	file                       string
	webhooks, slacks, mailTo   []string
	secretFile, command, from  string
	source, link               string
	severity                   health.Severity
	after, quiet, remind, each time.Duration
}

// alertPrefix begins the names of all flags of alerts. The keys of --alert-file lack it.
const alertPrefix = "alert-"

func (c *alertFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.file, "alert-file", "", "YAML file with the flags --alert-… without this prefix, such as slack: URL. Other users of this machine cannot see it in the process list")
	f.StringArrayVar(&c.webhooks, "alert-webhook", nil, "URL to which alerts about problems are posted as JSON; repeatable")
	f.StringVar(&c.secretFile, "alert-webhook-secret-file", "", "file with the key of the signature of webhooks")
	f.StringArrayVar(&c.slacks, "alert-slack", nil, "URL of an incoming webhook of Slack or a compatible service; repeatable")
	f.StringArrayVar(&c.mailTo, "alert-mail-to", nil, "address to which alerts are mailed; repeatable")
	f.StringVar(&c.from, "alert-mail-from", "", "sender of mails (default chosen by the mail command)")
	f.StringVar(&c.command, "alert-mail-command", "/usr/sbin/sendmail -t", "command that reads a mail from standard input; spaces separate its arguments")
	c.severity = health.Warning
	f.TextVar(&c.severity, "alert-severity", health.Warning, "minimum severity: notice, warning or trouble")
	f.DurationVar(&c.after, "alert-after", time.Minute, "how long a problem must last before the first alert")
	f.DurationVar(&c.quiet, "alert-quiet", 5*time.Minute, "how long a problem must be gone before it counts as resolved")
	f.DurationVar(&c.remind, "alert-reminder", 4*time.Hour, "interval of reminders; 0 means none")
	f.DurationVar(&c.each, "alert-interval", 15*time.Second, "interval of the checks")
	f.StringVar(&c.source, "alert-source", "", "name in alerts, such as production")
	f.StringVar(&c.link, "alert-link", "", "URL in alerts, such as that of the web UI")
}

// read sets the flags of --alert-file that the command line omits.
func (c *alertFlags) read(f *pflag.FlagSet) error {
	if c.file == "" {
		return nil
	}
	content, err := os.ReadFile(c.file)
	if err != nil {
		return usage("--alert-file: %v", err)
	}
	var values map[string]any
	if yaml.Unmarshal(content, &values) != nil {
		return usage("--alert-file: %s is not a YAML mapping of keys and values", c.file) // the error may quote a secret
	}
	for key, value := range values {
		flag := f.Lookup(alertPrefix + strings.ReplaceAll(key, "_", "-"))
		if flag == nil || key == "file" {
			return usage("--alert-file: %s: unknown key %q", c.file, key)
		}
		if flag.Changed {
			continue
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, one := range list {
			if f.Set(flag.Name, fmt.Sprint(one)) != nil {
				return usage("--alert-file: %s: invalid value of %q", c.file, key)
			}
		}
	}
	return nil
}

// notifier returns the notifier of the flags; nil if there is no sink.
func (c *alertFlags) notifier(f *pflag.FlagSet, log *slog.Logger) (*alert.Notifier, error) {
	if err := c.read(f); err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Minute} // each attempt has a shorter one
	secret := ""
	if c.secretFile != "" {
		content, err := os.ReadFile(c.secretFile)
		if err != nil {
			return nil, usage("--alert-webhook-secret-file: %v", err)
		}
		if secret = strings.TrimSpace(string(content)); secret == "" {
			return nil, usage("--alert-webhook-secret-file: %s is empty", c.secretFile)
		}
	}
	var sinks []alert.Sink
	for _, to := range c.webhooks {
		if err := checkSink("--alert-webhook", to); err != nil {
			return nil, err
		}
		sinks = append(sinks, &alert.Webhook{URL: to, Secret: secret, Client: client})
	}
	for _, to := range c.slacks {
		if err := checkSink("--alert-slack", to); err != nil {
			return nil, err
		}
		sinks = append(sinks, &alert.Slack{URL: to, Client: client})
	}
	if len(c.mailTo) > 0 {
		command := strings.Fields(c.command)
		if len(command) == 0 {
			return nil, usage("--alert-mail-command is empty")
		}
		sinks = append(sinks, &alert.Mail{Command: command, To: c.mailTo, From: c.from})
	}
	if c.after < 0 || c.quiet <= 0 || c.remind < 0 || c.each <= 0 {
		return nil, usage("--alert-after and --alert-reminder must not be negative, --alert-quiet and --alert-interval must be greater than 0")
	}
	if len(sinks) == 0 {
		if c.file != "" || c.secretFile != "" {
			return nil, usage("alerts need --alert-webhook, --alert-slack or --alert-mail-to")
		}
		return nil, nil
	}
	return alert.New(alert.Config{
		Sinks: sinks, Severity: c.severity, After: cmp.Or(c.after, -1), Quiet: c.quiet, Reminder: cmp.Or(c.remind, -1), Source: c.source, Link: c.link, Log: log,
	})
}

// checkSink checks a URL. The error does not repeat it: it may be a secret.
func checkSink(flag, to string) error {
	if u, err := url.Parse(to); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usage("%s: the value is not a URL that begins with https:// or http://", flag)
	}
	return nil
}

// run sends alerts about problems, by the thresholds of s, until stop is called. The notifier may
// be nil.
func (c *alertFlags) run(ctx context.Context, n *alert.Notifier, i *asynq.Inspector, s health.Settings, log *slog.Logger) (stop func()) {
	if n == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := n.Run(ctx, i, s, c.each); err != nil && !errors.Is(err, context.Canceled) {
			log.Error("alerts stopped", "error", err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// alertMetrics are the counters of alerts, by sink.
type alertMetrics struct{ n *alert.Notifier }

var (
	alertsSent   = prometheus.NewDesc("asynq_alerts_sent_total", "Alerts that were sent.", []string{"sink"}, nil)
	alertsFailed = prometheus.NewDesc("asynq_alerts_failed_total", "Alerts that could not be sent, after all attempts.", []string{"sink"}, nil)
)

// Describe sends the descriptions of the metrics.
func (alertMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- alertsSent
	ch <- alertsFailed
}

// Collect sends the metrics. Sinks with the same name are added up.
func (m alertMetrics) Collect(ch chan<- prometheus.Metric) {
	sent, failed := map[string]int{}, map[string]int{}
	for _, s := range m.n.Status() {
		sent[s.Sink] += s.Sent
		failed[s.Sink] += s.Failed
	}
	for sink := range sent {
		ch <- prometheus.MustNewConstMetric(alertsSent, prometheus.CounterValue, float64(sent[sink]), sink)
		ch <- prometheus.MustNewConstMetric(alertsFailed, prometheus.CounterValue, float64(failed[sink]), sink)
	}
}
