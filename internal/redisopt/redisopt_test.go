package redisopt

import (
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestReset(t *testing.T) {
	t.Parallel()
	options := &redis.Options{PoolSize: 3, MaxIdleConns: 2, DB: 1}
	Reset(options, "PoolSize", "MaxIdleConns", "NoSuchField")
	if options.PoolSize != 0 || options.MaxIdleConns != 0 || options.DB != 1 {
		t.Errorf("options %+v", options)
	}
}

// TestDisablePipelinePool fails if a version of go-redis has the option in another form.
func TestDisablePipelinePool(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 7} {
		options := new(redis.ClusterOptions)
		f := reflect.ValueOf(options).Elem().FieldByName("PipelinePoolSize")
		if f.IsValid() {
			f.SetInt(size)
		}
		DisablePipelinePool(options)
		if want := map[int64]int64{0: -1, 7: 7}[size]; f.IsValid() && f.Int() != want {
			t.Errorf("PipelinePoolSize %d became %d, want %d", size, f.Int(), want)
		}
	}
}

// TestDisableMaintNotifications fails if a version of go-redis has the option in another form.
func TestDisableMaintNotifications(t *testing.T) {
	t.Parallel()
	for _, options := range []any{new(redis.Options), new(redis.ClusterOptions)} {
		DisableMaintNotifications(options)
		config := reflect.ValueOf(options).Elem().FieldByName("MaintNotificationsConfig")
		if !config.IsValid() {
			continue // an older go-redis
		}
		if got := config.Elem().FieldByName("Mode").String(); got != "disabled" {
			t.Errorf("%T has the mode %q", options, got)
		}
	}
}
