package demo

import (
	"time"

	"github.com/asynq-go/asynq"
)

// schedulerGroup is the group of two of the schedulers.
const schedulerGroup = "shop"

// startSchedulers starts a group of two schedulers, a leader and a standby, and one scheduler
// without a group.
func (d *Demo) startSchedulers(redis asynq.RedisConnOpt) error {
	refresh := asynq.PeriodicTaskConfig{Cronspec: "@every 30s", Task: asynq.NewTask("catalog:refresh", []byte(`{"source":"warehouse","full":false}`)), Opts: []asynq.Option{asynq.Queue(low), asynq.MaxRetry(1)}}
	stock := asynq.PeriodicTaskConfig{Cronspec: "@every 15s", Task: asynq.NewTask("stock:check", []byte(`{"threshold":5}`)), Opts: []asynq.Option{asynq.Timeout(10 * time.Second), asynq.MaxRetry(2)}}
	daily := asynq.PeriodicTaskConfig{Cronspec: "*/5 * * * *", Task: asynq.NewTask("report:daily", []byte(`{"sections":["sales","returns","visits"]}`)), Opts: []asynq.Option{asynq.Queue(reports), asynq.Retention(time.Hour), asynq.MaxRetry(1), asynq.Timeout(3 * time.Minute)}}
	sessions := asynq.PeriodicTaskConfig{Cronspec: "0 3 * * *", Task: asynq.NewTask("session:cleanup", nil), Opts: []asynq.Option{asynq.Queue(low)}}
	weekly := asynq.PeriodicTaskConfig{Cronspec: "CRON_TZ=Europe/Berlin 0 8 * * 1", Task: asynq.NewTask("newsletter:weekly", []byte(`{"template":"monday"}`)), Opts: []asynq.Option{asynq.Queue(newsletter)}}
	for _, s := range []struct {
		group   string
		configs []asynq.PeriodicTaskConfig
	}{
		{schedulerGroup, []asynq.PeriodicTaskConfig{refresh, stock, daily}},
		{schedulerGroup, []asynq.PeriodicTaskConfig{refresh, stock, daily}},
		{"", []asynq.PeriodicTaskConfig{sessions, weekly}},
	} {
		opts := &asynq.SchedulerOpts{Group: s.group, LogLevel: asynq.FatalLevel}
		if d.opts.Log != nil {
			opts.Logger = asynq.NewSlogLogger(d.opts.Log)
		}
		scheduler := asynq.NewScheduler(redis, opts)
		for _, config := range s.configs {
			id, err := scheduler.RegisterConfig(config)
			if err != nil {
				return err
			}
			d.entries = append(d.entries, id)
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		d.schedulers = append(d.schedulers, scheduler)
	}
	return nil
}
