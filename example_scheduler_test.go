package asynq_test

import (
	"fmt"
	"log"
	"time"

	"github.com/asynq-go/asynq"
)

func ExampleScheduler() {
	redis, stop := embeddedRedis()
	defer stop()

	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	enqueued := make(chan *asynq.TaskInfo, 10)
	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{
		Location: berlin,
		Group:    "billing", // run as many instances as you like: each tick is enqueued once
		LogLevel: asynq.ErrorLevel,
		PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
			if err == nil {
				enqueued <- info
			}
		},
	})
	if _, err := scheduler.Register("30 4 * * MON-FRI", asynq.NewTask("invoices:send", nil), asynq.Queue("low")); err != nil {
		log.Fatal(err)
	}
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("heartbeat", nil)); err != nil {
		log.Fatal(err)
	}
	if err := scheduler.Start(); err != nil { // or scheduler.Run(), which waits for TERM or INT
		log.Fatal(err)
	}
	fmt.Println((<-enqueued).Type)
	scheduler.Shutdown()
	// Output: heartbeat
}

// tenants is a source of periodic tasks, such as a table of a database.
type tenants struct{ names []string }

// GetConfigs has a report made for each tenant every night.
func (t *tenants) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	var configs []*asynq.PeriodicTaskConfig
	for _, name := range t.names {
		configs = append(configs, &asynq.PeriodicTaskConfig{Cronspec: "@midnight", Task: asynq.NewTask("report", []byte(name))})
	}
	return configs, nil
}

func ExamplePeriodicTaskManager() {
	redis, stop := embeddedRedis()
	defer stop()

	manager, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		RedisConnOpt:               redis,
		PeriodicTaskConfigProvider: &tenants{names: []string{"acme", "umbrella"}},
		SyncInterval:               time.Minute, // tenants come and go
		SchedulerOpts:              &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := manager.Start(); err != nil { // or manager.Run(), which waits for TERM or INT
		log.Fatal(err)
	}
	manager.Shutdown()
	// Output:
}
