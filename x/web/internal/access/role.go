package access

import (
	"fmt"
	"strings"
)

// verbRoles maps verbs to the minimum role. Verbs that are not in it are always refused.
var verbRoles = map[Verb]Role{
	View:           Viewer,
	TaskRun:        Operator,
	TaskArchive:    Operator,
	TaskDelete:     Operator,
	TaskCancel:     Operator,
	TaskReschedule: Operator,
	TaskEdit:       Operator,
	TaskEnqueue:    Operator,
	QueuePause:     Operator,
	QueueResume:    Operator,
	PartitionSet:   Operator,
	FlowChange:     Operator,
	ScheduleRun:    Operator,
	SchedulePause:  Operator,
	ScheduleResume: Operator,
	HealthMute:     Operator,
	QueueDelete:    Admin,

	ServerPauseQueue:  Operator,
	ServerResumeQueue: Operator,
	ServerConcurrency: Operator,
	ServerQuiet:       Admin,
	ServerStop:        Admin,
	AuditView:         Admin,
}

var roleNames = [...]string{None: "none", Viewer: "viewer", Operator: "operator", Admin: "admin"}

// May reports whether the role includes the verb.
func (r Role) May(v Verb) bool {
	least, ok := verbRoles[v]
	return ok && r.valid() && r >= least
}

func (r Role) valid() bool { return r >= None && r <= Admin }

// String returns the name of the role, in the form of ParseRole.
func (r Role) String() string {
	if !r.valid() {
		return fmt.Sprintf("Role(%d)", int(r))
	}
	return roleNames[r]
}

// ParseRole parses the name of a role, ignoring case: none, viewer, operator or admin.
func ParseRole(s string) (Role, error) {
	for r, name := range roleNames {
		if strings.EqualFold(s, name) {
			return Role(r), nil
		}
	}
	return None, fmt.Errorf("unknown role %q: use one of %s", clip(s, 64), strings.Join(roleNames[:], ", "))
}

// MarshalText returns the name of the role.
func (r Role) MarshalText() ([]byte, error) {
	if !r.valid() {
		return nil, fmt.Errorf("unknown role %d", int(r))
	}
	return []byte(r.String()), nil
}

// UnmarshalText parses the name of a role.
func (r *Role) UnmarshalText(text []byte) error {
	parsed, err := ParseRole(string(text))
	if err == nil {
		*r = parsed
	}
	return err
}
