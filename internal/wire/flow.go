package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The keys of an Ext of tasks that belong to flows, or whose end someone awaits.
const (
	// ExtFlow is the FlowPart that the task is a member of, escaped.
	ExtFlow = "flow"

	// ExtFlowResult is "1" if the task is the only one of its node: its result is that of the node.
	ExtFlowResult = "flow_result"

	// ExtAwait is set if clients may wait for the end of the task: the name of the client that
	// enqueued the task to wait for it, or "-".
	ExtAwait = "await"
)

// The limits of flows, and of the results that they keep.
const (
	MaxFlowID     = 200       // bytes
	MaxNodeName   = 100       // bytes
	MaxFlowNodes  = 1_000     // of a flow
	MaxFlowTasks  = 10_000    // that a flow names when it starts
	MaxFlowBytes  = 8 << 20   // of the messages of these tasks
	MaxFlowResult = 64 << 10  // bytes of the result of a node
	FlowIdle      = 2_592_000 // seconds after the last change until an unfinished flow is deleted
)

// Flows is the ZSET of the IDs of flows, scored by their creation in Unix milliseconds. It may name
// flows that no longer exist. An extension; it has a TTL.
func (n Namespace) Flows() string { return string(n) + ":flows" }

// FlowsToCheck is the ZSET of the IDs of flows that a process is changing, scored by when servers
// check them in case it dies, in Unix milliseconds. An extension; it has a TTL.
func (n Namespace) FlowsToCheck() string { return string(n) + ":flows_to_check" }

// Flow is the HASH of a flow: what FlowRecord has, and the FlowNode of each node. An extension; it
// has a TTL.
func (n Namespace) Flow(id string) string { return string(n) + ":flow:{" + id + "}" }

// FlowPlan is the STRING with the FlowPlan of a flow. An extension; it has a TTL.
func (n Namespace) FlowPlan(id string) string { return n.Flow(id) + ":plan" }

// FlowPrefix is the prefix of the keys for flows.
func (q Queue) FlowPrefix() string { return q.prefix + "flows:" }

// The beginnings of the keys of parts.
const (
	flowParts  = "flows:part:"
	flowOpen   = "flows:open:"
	flowFailed = "flows:failed:"
)

// FlowPart is the HASH with the counters of a node in the queue, and which of its tasks were
// created. An extension; it has a TTL.
func (q Queue) FlowPart(p FlowPart) string { return q.prefix + flowParts + p.String() }

// FlowOpen is the SET of the IDs of the members of a part that have not ended. An extension; it has
// a TTL.
func (q Queue) FlowOpen(p FlowPart) string { return q.prefix + flowOpen + p.String() }

// FlowFailed is the SET of the IDs of the members of a part that were archived, and have not
// succeeded since. An extension; it has a TTL.
func (q Queue) FlowFailed(p FlowPart) string { return q.prefix + flowFailed + p.String() }

// ParseFlowOpen returns the part of a key that FlowOpen of the queue has returned. It reports false
// for other keys.
func ParseFlowOpen(q Queue, key string) (FlowPart, bool) {
	name, ok := strings.CutPrefix(key, q.prefix+flowOpen)
	if !ok {
		return FlowPart{}, false
	}
	return ParseFlowPart(name)
}

// FlowsDue is the ZSET of the parts in the queue, scored by when a server checks them in Unix
// milliseconds. An extension; it has a TTL.
func (q Queue) FlowsDue() string { return q.prefix + "flows:due" }

// Replies is the LIST of the ends of tasks that a client waits for. An extension; it has a TTL.
func (q Queue) Replies(client string) string { return q.prefix + "replies:" + client }

// FlowPart names a node of a run of a flow. A run is one creation of a flow: IDs can be used again.
type FlowPart struct{ Run, Node, Flow string }

// String returns the name of the part in keys. Neither a run nor a node contains a colon.
func (p FlowPart) String() string { return p.Run + ":" + p.Node + ":" + p.Flow }

// ParseFlowPart decodes the result of String.
func ParseFlowPart(name string) (p FlowPart, ok bool) {
	run, rest, ok := strings.Cut(name, ":")
	node, flow, ok2 := strings.Cut(rest, ":")
	return FlowPart{Run: run, Node: node, Flow: flow}, ok && ok2 && run != "" && node != "" && flow != ""
}

// FlowPart returns the part that the task is a member of. It reports false if there is none.
func (m *TaskMessage) FlowPart() (FlowPart, bool) { return ParseFlowPart(m.FlowPartName()) }

// FlowPartName returns the name of the part that the task is a member of, "" if there is none.
func (m *TaskMessage) FlowPartName() string {
	if len(m.Headers) == 0 {
		return ""
	}
	name := m.Ext().Get(ExtFlow)
	if strings.Contains(name, "%") {
		name = partitionUnescapes.Replace(name)
	}
	return name
}

// SetFlowPart makes the task a member of a part. only states that it is the only task of the node.
func (m *TaskMessage) SetFlowPart(p FlowPart, only bool) {
	result := ""
	if only {
		result = "1"
	}
	m.SetExt(m.Ext().Set(ExtFlow, partitionEscapes.Replace(p.String())).Set(ExtFlowResult, result))
}

// ValidateFlowID returns an error if id cannot name a flow.
func ValidateFlowID(id string) error {
	if SpreadsKeys(id) {
		return fmt.Errorf("flow ID %q must not begin with a closing brace", id)
	}
	return validateFlowName("flow ID", id, MaxFlowID)
}

// ValidateNodeName returns an error if name cannot name a node of a flow.
func ValidateNodeName(name string) error {
	if strings.Contains(name, ":") {
		return fmt.Errorf("node name %q must not contain a colon", name)
	}
	return validateFlowName("node name", name, MaxNodeName)
}

func validateFlowName(what, text string, limit int) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New(what + " must not be blank")
	case len(text) > limit:
		return fmt.Errorf("%s %q must have at most %d bytes", what, text, limit)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%s %q must be UTF-8 without control characters", what, text)
	}
	return nil
}

// FlowPlan is what a flow consists of. It does not change.
type FlowPlan struct {
	ID        string         `json:"id"`
	Run       string         `json:"run"`
	Retention int64          `json:"retention"` // seconds after the end
	Nodes     []FlowPlanNode `json:"nodes"`     // a node after those that it depends on
}

// FlowPlanNode is a node of a FlowPlan.
type FlowPlanNode struct {
	Name   string     `json:"name"`
	Tasks  []FlowTask `json:"tasks,omitempty"`
	Open   bool       `json:"open,omitempty"`  // clients add members until they close the node
	Batch  bool       `json:"batch,omitempty"` // any number of members
	After  []FlowEdge `json:"after,omitempty"`
	Policy string     `json:"policy,omitempty"` // what happens if a dependency fails: see below
}

// The policies of nodes whose dependencies fail.
const (
	FlowBlock  = ""       // wait until the dependency succeeds after all
	FlowCancel = "cancel" // do not run
	FlowIgnore = "ignore" // run
)

// FlowEdge is a dependency of a node.
type FlowEdge struct {
	Node string `json:"node"`
	On   string `json:"on,omitempty"`
}

// What a FlowEdge waits for.
const (
	FlowSuccess = ""        // all members have succeeded
	FlowFailure = "failure" // the first member has failed
	FlowEnd     = "end"     // all members have ended
)

// FlowTask is a task that is created when its node starts.
type FlowTask struct {
	Queue   string `json:"queue"`
	ID      string `json:"id"`
	Message []byte `json:"message"`         // encoded
	Delay   int64  `json:"delay,omitempty"` // milliseconds after the start of the node
	At      int64  `json:"at,omitempty"`    // Unix milliseconds; 0: no time
}

// Encode returns the plan in JSON.
func (p *FlowPlan) Encode() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("wire: encode FlowPlan: %w", err)
	}
	return b, nil
}

// DecodeFlowPlan decodes the result of Encode.
func DecodeFlowPlan(b []byte) (*FlowPlan, error) {
	p := &FlowPlan{}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("wire: decode FlowPlan: %w", err)
	}
	return p, nil
}

// FlowStatus is the status of a flow or of a node.
type FlowStatus string

// The statuses.
const (
	FlowWaiting   FlowStatus = "waiting"   // node: for other nodes
	FlowRunning   FlowStatus = "running"   // members have not ended
	FlowBlocked   FlowStatus = "blocked"   // flow: nodes wait for one that has failed
	FlowSucceeded FlowStatus = "succeeded" // all members have succeeded
	FlowHasFailed FlowStatus = "failed"    // all members have ended, some have not succeeded
	FlowCanceled  FlowStatus = "canceled"  // on request, or because a dependency failed
	FlowOmitted   FlowStatus = "omitted"   // node: it depends on a failure or a success that did not happen
	FlowSkipped   FlowStatus = "skipped"   // node: on request; counts as succeeded
)

// Ended reports whether no member of a node with this status is left, and none will be created
// without a request.
func (s FlowStatus) Ended() bool { return s != FlowWaiting && s != FlowRunning && s != FlowBlocked }

// FlowNode is the state of a node.
type FlowNode struct {
	Status FlowStatus `json:"s"`
	Open   bool       `json:"o,omitempty"` // clients may add members
	Queues []string   `json:"q,omitempty"` // that have or may have parts

	// The sums over the parts when they were last read.
	Made      int64 `json:"m,omitempty"`
	Succeeded int64 `json:"ok,omitempty"`
	Failed    int64 `json:"f,omitempty"` // archived now
	Deleted   int64 `json:"d,omitempty"`

	Counted   int64 `json:"at,omitempty"` // when the sums changed, Unix milliseconds
	HasFailed bool  `json:"hf,omitempty"` // a member has failed or was deleted at some time
	Started   int64 `json:"t,omitempty"`  // Unix milliseconds
	Ended     int64 `json:"e,omitempty"`  // Unix milliseconds; 0: not
	Created   bool  `json:"c,omitempty"`  // the tasks of the plan exist, or have existed
}

// FlowRecord is the state of a flow.
type FlowRecord struct {
	Version  int64 // changes with each write
	Run      string
	Status   FlowStatus
	Created  int64 // Unix milliseconds
	Changed  int64 // Unix milliseconds
	Ended    int64 // Unix milliseconds; 0: not
	Canceled bool  // on request
	Nodes    map[string]*FlowNode

	read map[string]string // the fields that the record was decoded from
}

// The fields of Flow. The field of a node is its name behind nodePrefix.
const (
	FieldFlowRun    = "run"
	FieldFlowStatus = "status"

	flowVersion                                        = "version"
	flowCreated, flowChanged, flowEnded, flowIsStopped = "created", "changed", "ended", "canceled"
	nodePrefix                                         = "node:"
)

// Changes returns the fields that differ from those that the record was decoded from, without the
// version, as names and values.
func (r *FlowRecord) Changes() (fields []any, err error) {
	set := func(name, value string) {
		if old, ok := r.read[name]; !ok || old != value {
			fields = append(fields, name, value)
		}
	}
	for name, node := range r.Nodes {
		value, err := json.Marshal(node)
		if err != nil {
			return nil, fmt.Errorf("wire: encode FlowNode: %w", err)
		}
		set(nodePrefix+name, string(value))
	}
	set(FieldFlowRun, r.Run)
	set(FieldFlowStatus, string(r.Status))
	set(flowCreated, strconv.FormatInt(r.Created, 10))
	set(flowEnded, strconv.FormatInt(r.Ended, 10))
	set(flowIsStopped, strconv.FormatBool(r.Canceled))
	if len(fields) > 0 {
		set(flowChanged, strconv.FormatInt(r.Changed, 10))
	}
	return fields, nil
}

// FlowHeadFields returns the fields for DecodeFlowHead.
func FlowHeadFields() []string { return []string{FieldFlowStatus, flowCreated, flowChanged} }

// DecodeFlowHead decodes the fields of FlowHeadFields: the status of a flow, when it was created,
// and when it last changed, in Unix milliseconds. It reports false if the flow does not exist.
func DecodeFlowHead(fields []any) (status FlowStatus, created, changed int64, ok bool) {
	if len(fields) != 3 {
		return "", 0, 0, false
	}
	text := make([]string, len(fields))
	for i, f := range fields {
		text[i], _ = f.(string)
	}
	created, err := strconv.ParseInt(text[1], 10, 64)
	changed, err2 := strconv.ParseInt(text[2], 10, 64)
	return FlowStatus(text[0]), created, changed, err == nil && err2 == nil
}

// DecodeFlowRecord decodes the HASH of a flow.
func DecodeFlowRecord(fields map[string]string) (*FlowRecord, error) {
	r := &FlowRecord{
		Run: fields[FieldFlowRun], Status: FlowStatus(fields[FieldFlowStatus]), Canceled: fields[flowIsStopped] == "true",
		Nodes: make(map[string]*FlowNode, len(fields)), read: fields,
	}
	for name, to := range map[string]*int64{
		flowVersion: &r.Version, flowCreated: &r.Created, flowChanged: &r.Changed, flowEnded: &r.Ended,
	} {
		var err error
		if *to, err = strconv.ParseInt(fields[name], 10, 64); err != nil {
			return nil, fmt.Errorf("wire: decode flow: field %s is %q", name, fields[name])
		}
	}
	for field, value := range fields {
		name, ok := strings.CutPrefix(field, nodePrefix)
		if !ok {
			continue
		}
		node := &FlowNode{}
		if err := json.Unmarshal([]byte(value), node); err != nil {
			return nil, fmt.Errorf("wire: decode node %q: %w", name, err)
		}
		r.Nodes[name] = node
	}
	return r, nil
}
