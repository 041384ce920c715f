package inspect

import (
	"embed"

	"github.com/asynq-go/asynq/internal/script"
)

//go:embed lua/*.lua lua/lib/*.lua
var files embed.FS

func load(name string) *script.Script { return script.Load(files, name) }

var (
	changeScript        = load("change")
	updateMessageScript = load("update_message")
	updateTaskScript    = load("update_task")
	removeQueueScript   = load("remove_queue")
	listScript          = load("list")
	listWindowScript    = load("list_window")
	readTasksScript     = load("read_tasks")
	queueStatsScript    = load("queue_stats")
	queueMemoryScript   = load("queue_memory")
	importTasksScript   = load("import_tasks")
	partitionsScript    = load("partitions")
	setPartitionScript  = load("set_partition")
)
