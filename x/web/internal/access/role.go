package access

import (
	"fmt"
	"strings"
)

// verbRoles is the least role that each verb asks for. A verb that is not in it is refused to everybody.
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
	ScheduleRun:    Operator,
	QueueDelete:    Admin,
}

var roleNames = [...]string{None: "none", Viewer: "viewer", Operator: "operator", Admin: "admin"}

// May says whether the role includes the verb.
func (r Role) May(v Verb) bool {
	least, ok := verbRoles[v]
	return ok && r.valid() && r >= least
}

func (r Role) valid() bool { return r >= None && r <= Admin }

// String is the name of the role, as ParseRole reads it.
func (r Role) String() string {
	if !r.valid() {
		return fmt.Sprintf("Role(%d)", int(r))
	}
	return roleNames[r]
}

// ParseRole reads the name of a role, in any case: none, viewer, operator or admin.
func ParseRole(s string) (Role, error) {
	for r, name := range roleNames {
		if strings.EqualFold(s, name) {
			return Role(r), nil
		}
	}
	return None, fmt.Errorf("unknown role %q: a role is one of %s", clip(s, 64), strings.Join(roleNames[:], ", "))
}

// MarshalText gives the name of the role.
func (r Role) MarshalText() ([]byte, error) {
	if !r.valid() {
		return nil, fmt.Errorf("unknown role %d", int(r))
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads the name of a role.
func (r *Role) UnmarshalText(text []byte) error {
	parsed, err := ParseRole(string(text))
	if err == nil {
		*r = parsed
	}
	return err
}
