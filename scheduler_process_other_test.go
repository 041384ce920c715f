//go:build !unix

package asynq_test

func runCrashableScheduler() {}
