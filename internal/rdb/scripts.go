package rdb

import (
	"embed"

	"github.com/asynq-go/asynq/internal/script"
)

//go:embed lua/*.lua lua/lib/*.lua
var files embed.FS

func load(name string) *script.Script { return script.Load(files, name) }

var (
	enqueueScript           = load("enqueue")
	createScript            = load("create")
	createOnceScript        = load("create_once")
	enqueueModeScript       = load("enqueue_mode")
	fetchScript             = load("fetch")
	fetchPartitionsScript   = load("fetch_partitions")
	reclaimScript           = load("reclaim")
	doneScript              = load("done")
	settleScript            = load("settle")
	settleMembersScript     = script.LoadVariant(files, "settle", "members")
	doneMembersScript       = script.LoadVariant(files, "done", "members")
	doneFetchScript         = load("done_fetch")
	doneFetchMembersScript  = script.LoadVariant(files, "done_fetch", "members")
	extendScript            = load("extend")
	expiredScript           = load("expired")
	forwardScript           = load("forward")
	purgeScript             = load("purge")
	writeResultsScript      = load("write_results")
	writeProgressScript     = load("write_progress")
	readStepsScript         = load("read_steps")
	writeStepScript         = load("write_step")
	awaitSignalScript       = load("await_signal")
	signalScript            = load("signal")
	stageScript             = load("stage")
	readSetsScript          = load("read_sets")
	commitAggregationScript = load("commit_aggregation")
	extendSetsScript        = load("extend_sets")
	returnToGroupScript     = load("return_to_group")
	indexGroupsScript       = load("index_groups")
	archiveInvalidScript    = load("archive_invalid")
	leadershipScript        = load("leadership")
	cancelScript            = load("cancel")
	addStatsScript          = load("add_stats")
	createMembersScript     = load("create_members")
	readPartScript          = load("read_part")
	changePartScript        = load("change_part")
	startFlowScript         = load("start_flow")
	writeFlowScript         = load("write_flow")
	awaitScript             = load("await")
	statesScript            = load("states")
)
