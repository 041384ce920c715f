module github.com/asynq-go/asynq/x/service

go 1.26.0

replace github.com/asynq-go/asynq => ../..
