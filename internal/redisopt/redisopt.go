// Package redisopt sets go-redis options that not every supported version of go-redis has.
package redisopt

import "reflect"

// Reset sets the named fields of an options struct to their zero values. It ignores fields that the
// struct does not have.
func Reset(options any, fields ...string) {
	v := reflect.ValueOf(options).Elem()
	for _, name := range fields {
		if f := v.FieldByName(name); f.IsValid() {
			f.SetZero()
		}
	}
}

// DisablePipelinePool makes pipelines share the connections of other commands. Newer versions of
// go-redis have a second pool for them.
func DisablePipelinePool(options any) {
	if f := reflect.ValueOf(options).Elem().FieldByName("PipelinePoolSize"); f.IsValid() && f.IsZero() {
		f.SetInt(-1)
	}
}

// DisableMaintNotifications disables maintenance notifications, which newer versions of go-redis
// request on each new connection. Only Redis Cloud and Redis Enterprise support them; every other
// server replies with an error, which costs a round trip. It does nothing if the version has no
// such option.
func DisableMaintNotifications(options any) {
	config := reflect.ValueOf(options).Elem().FieldByName("MaintNotificationsConfig")
	if !config.IsValid() {
		return
	}
	disabled := reflect.New(config.Type().Elem())
	disabled.Elem().FieldByName("Mode").SetString("disabled")
	config.Set(disabled)
}
