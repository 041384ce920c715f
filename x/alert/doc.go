// Package alert sends messages about the causes that x/health finds: to webhooks, to Slack and
// compatible services, and by mail. A cause yields one message when it begins, one when it becomes
// more severe, reminders while it lasts, and one when it is resolved. Muted causes yield none.
//
//	notifier, err := alert.New(alert.Config{Sinks: []alert.Sink{&alert.Slack{URL: url}}})
//	…
//	err = notifier.Run(ctx, inspector, health.DefaultSettings(), 15*time.Second)
//
// Run one notifier for each Redis: several notifiers send each message several times.
//
//	alert.go    the messages
//	tracker.go  decides which messages to send
//	notifier.go checks, and delivers with retries
//	sink.go     webhooks and Slack
//	mail.go     mail by a command
package alert
