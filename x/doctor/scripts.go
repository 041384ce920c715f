package doctor

import (
	"embed"

	"github.com/asynq-go/asynq/internal/script"
)

//go:embed lua/*.lua lua/lib/*.lua
var files embed.FS

func load(name string) *script.Script { return script.Load(files, name) }

var (
	diagnoseTasksScript      = load("diagnose_tasks")
	diagnoseReferencesScript = load("diagnose_references")
	diagnoseGroupScript      = load("diagnose_group")
	diagnosePartitionsScript = load("diagnose_partitions")
)
