module github.com/asynq-go/asynq/x/service/tasks

go 1.26.0

replace github.com/asynq-go/asynq => ../../..

replace github.com/asynq-go/asynq/x/asynqtest => ../../asynqtest

require (
	github.com/asynq-go/asynq v0.0.0
	github.com/asynq-go/asynq/x/asynqtest v0.0.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
