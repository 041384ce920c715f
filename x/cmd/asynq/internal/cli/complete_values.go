package cli

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// The number of tasks that completion scans and offers, per queue and state.
const (
	completeScan  = 1000
	completeTasks = 50
)

// taskNames completes with the IDs of tasks of --queue, or of all queues.
func (a *app) taskNames(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	ids, directive := a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		return sample(cmd, i, func(t *asynq.TaskInfo) (string, bool) { return t.ID, strings.HasPrefix(t.ID, begun) })
	})
	return slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(args, id) }), directive
}

// typeNames completes with the types of tasks of --queue, or of all queues, and with those that
// servers handle.
func (a *app) typeNames(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) ([]string, error) {
		names, err := sample(cmd, i, func(t *asynq.TaskInfo) (string, bool) { return t.Type, true })
		servers, _ := i.Servers() // the tasks are enough
		for _, s := range servers {
			names = append(names, s.Patterns...)
		}
		slices.Sort(names)
		return slices.Compact(names), err
	})
}

// sample returns the distinct texts of tasks of --queue, or of all queues, sorted.
func sample(cmd *cobra.Command, i *asynq.Inspector, text func(*asynq.TaskInfo) (string, bool)) ([]string, error) {
	queues := queuesOf(cmd)
	if !cmd.Flags().Changed("queue") {
		var err error
		if queues, err = i.Queues(); err != nil {
			return nil, err
		}
	}
	var found []string
	for _, queue := range queues {
		for _, state := range filter.AllStates {
			n := 0
			search := asynq.TaskFilter{MaxScan: completeScan, Match: func(t *asynq.TaskInfo) bool { _, ok := text(t); return ok }}
			for t, err := range i.Tasks(cmd.Context(), queue, state, search) {
				if errors.Is(err, asynq.ErrScanLimit) || errors.Is(err, asynq.ErrQueueNotFound) {
					break
				}
				if err != nil {
					return found, nil // what was found so far
				}
				name, _ := text(t)
				found = append(found, name)
				if n++; n == completeTasks {
					break
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// taskFilters completes the last term of a filter of tasks: its field, or its value.
func (a *app) taskFilters(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	none := cobra.ShellCompDirectiveNoFileComp
	at := strings.LastIndexAny(begun, " (-") + 1
	before, term := begun[:at], begun[at:]
	field, value, ok := strings.Cut(term, ":")
	var values []string
	switch {
	case !ok:
		for _, name := range filter.Fields() {
			sign := ":"
			if name == "age" || name == "size" || name == "retried" || name == "max_retry" {
				sign = ">"
			}
			values = append(values, name+sign)
		}
		return prefixed(values, before, term), none | cobra.ShellCompDirectiveNoSpace
	case field == "state":
		values = filter.States()
	case field == "queue":
		values, _ = a.queueNames(cmd, nil, value)
	case field == "type":
		values, _ = a.typeNames(cmd, nil, value)
	}
	return prefixed(values, before+field+":", value), none
}

// prefixed returns the values that begin with a text, with another text before them.
func prefixed(values []string, before, begun string) []string {
	var all []string
	for _, v := range values {
		if strings.HasPrefix(v, begun) {
			all = append(all, before+v)
		}
	}
	return all
}

// rowTypes are the rows of listings, by command, whose fields --filter and --sort complete.
var rowTypes = map[string]reflect.Type{
	"queue ls": reflect.TypeFor[queueRow](), "queue top": reflect.TypeFor[topRow](), "group ls": reflect.TypeFor[groupRow](),
	"server ls": reflect.TypeFor[serverRow](), "cron ls": reflect.TypeFor[cronRow](), "context ls": reflect.TypeFor[contextRow](),
	"limit ls": reflect.TypeFor[limitRow](), "lock ls": reflect.TypeFor[lockRow](), "stats types": reflect.TypeFor[typeStatsRow](),
	"flow ls": reflect.TypeFor[flowRow](),
}

// rowFields returns the JSON names of the fields of a listing's rows, in order.
func rowFields(cmd *cobra.Command) []string {
	row := rowTypes[strings.TrimPrefix(cmd.CommandPath(), "asynq ")]
	if row == nil {
		return nil
	}
	var names []string
	for n := range row.NumField() {
		if name, _, _ := strings.Cut(row.Field(n).Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// rowFilters completes the last field of a filter of rows.
func rowFilters(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	at := strings.LastIndexAny(begun, " (-") + 1
	return prefixed(rowFields(cmd), begun[:at], begun[at:]), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// sortFields completes the last field of --sort.
func sortFields(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	at := strings.LastIndexAny(begun, ",-") + 1
	return prefixed(rowFields(cmd), begun[:at], begun[at:]), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
