package dash

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/redis/go-redis/v9"
)

// Values that cannot be read are shown as unknown, and an error of many queues only once.
func TestQueuesWithoutPermission(t *testing.T) {
	t.Parallel()
	addr := proctest.StartRedis(t).Addr()
	client, _ := tools(t, asynq.RedisClientOpt{Addr: addr})
	for n := range 5 {
		enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue(fmt.Sprint("q", n)))
	}
	admin := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = admin.Close() })
	rules := []any{"ACL", "SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-evalsha", "-eval"}
	if err := admin.Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	_, insp := tools(t, asynq.RedisClientOpt{Addr: addr, Username: "limited", Password: "pw"})
	d := drive(t, quick(nil, insp))
	d.see("0 of 5 queues", "trouble  Could not read 5 queues", "NOPERM", "q4", "error", "Longest wait –")
	d.m.health = nil
	d.see("5 queues could not be read: ", "q4", "error")
	if s := d.screen(); strings.Count(s, "NOPERM") != 1 {
		t.Errorf("the error is shown %d times:\n%s", strings.Count(s, "NOPERM"), s)
	}
}
