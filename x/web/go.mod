module github.com/asynq-go/asynq/x/web

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/asynq-go/asynq v0.0.0
	github.com/redis/go-redis/v9 v9.14.1
	golang.org/x/crypto v0.45.0
	golang.org/x/net v0.47.0
)

require (
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/robfig/cron/v3 v3.0.1
	golang.org/x/time v0.14.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)
