package browser_test

import (
	"net/url"
	"testing"

	"github.com/asynq-go/asynq"
)

// Servers and schedules are operated from their pages.
func TestOperate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := asynq.NewServer(s.redis, asynq.Config{Concurrency: 3, Queues: map[string]int{"mail": 1}, LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.NewServeMux()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	scheduler := asynq.NewScheduler(s.redis, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	entry, err := scheduler.Register("@every 1h", asynq.NewTask("report", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)
	s.subscribed(t, 1)

	b := open(t, s.url)
	b.visit("/servers")
	b.says("1 active server")
	b.click(`main a[href*="server="]`, "")
	b.says("Operate this server")
	b.accessible("a server with its commands")

	b.write(`main input[name=n]`, "7")
	b.click(`main button[value=concurrency]`, "Set concurrency…")
	b.asked("Run up to 7 tasks at once on this server?")
	b.click(`#question button`, "Set concurrency")
	b.says("Concurrency set to 7.", "0 / 7")

	b.click(`main button[value=pause]`, "Pause mail…")
	b.asked("Pause queue mail on this server?")
	b.click(`#question button`, "Pause queue")
	b.says("Queue mail is paused on this server.")
	b.click(`main button[value=resume]`, "Resume mail")
	b.says("Queue mail is resumed on this server.")

	b.click(`main button[value=quiet]`, "Quiet server…")
	b.asked("Quiet this server?")
	b.click(`#question button`, "Quiet server")
	b.says("The server has stopped fetching tasks.")
	b.click(`main button[value=stop]`, "Stop server…")
	b.asked("Stop this server?")
	b.click(`#question button`, "Stop server")
	b.says("The server is shutting down.")
	await(t, server.Done(), "the server to shut down")

	b.visit("/schedule?id=" + url.QueryEscape(entry))
	b.click(`main button[value=pause]`, "Pause…")
	b.asked("Pause this schedule?")
	b.click(`#question button`, "Pause schedule")
	b.says("Schedule paused.")
	b.click(`main button[value=resume]`, "Resume")
	b.says("Schedule resumed.")

	b.visit("/audit")
	for _, verb := range []string{"server.concurrency", "server.pause", "server.resume", "server.quiet", "server.stop", "schedule.pause", "schedule.resume"} {
		b.says(verb)
	}
}
