module github.com/asynq-go/asynq/x/service

go 1.26.0

replace github.com/asynq-go/asynq => ../..

replace (
	github.com/asynq-go/asynq/x/asynqtest => ../asynqtest
	github.com/asynq-go/asynq/x/filter => ../filter
	github.com/asynq-go/asynq/x/metrics => ../metrics
	github.com/asynq-go/asynq/x/service/tasks => ./tasks
	github.com/asynq-go/asynq/x/web => ../web
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/asynq-go/asynq v0.0.0
	github.com/asynq-go/asynq/x/metrics v0.0.0
	github.com/asynq-go/asynq/x/service/tasks v0.0.0
	github.com/asynq-go/asynq/x/web v0.0.0
	github.com/prometheus/client_golang v1.25.0
	github.com/redis/go-redis/v9 v9.23.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sys v0.49.0
	golang.org/x/time v0.16.0
)

require (
	github.com/asynq-go/asynq/x/filter v0.0.0 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
