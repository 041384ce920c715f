package asynq

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FormatOption returns an option as text from which ParseOption creates an equal one, for programs
// that store tasks before they enqueue them. The text is that of Option.String, with exact times.
// It returns an error if the option is nil, of an unknown type, or has no such text, as a time
// after the year 9999.
func FormatOption(opt Option) (string, error) {
	own, err := ownOption(opt)
	if err != nil {
		return "", err
	}
	if own == nil {
		return "", fmt.Errorf("asynq: a nil option has no text: omit it")
	}
	text := exactOption(own)
	if again, ok := parseOption(text); !ok || exactOption(again) != text {
		return "", fmt.Errorf("asynq: option %v: its value cannot be stored as text", own)
	}
	return text, nil
}

// ParseOption creates an option from the output of FormatOption or Option.String. It returns an
// error if the text is malformed or names an option that this version does not have. Invalid
// values, such as a negative Timeout, are errors of Enqueue.
func ParseOption(text string) (Option, error) {
	opt, ok := parseOption(text)
	if !ok {
		return nil, fmt.Errorf("asynq: %q is not an option of this version: want the output of FormatOption", text)
	}
	return opt, nil
}

// optionKind creates the options of a type from a Value or from text.
type optionKind struct {
	name    string
	convert func(opt Option) (Option, error)
	parse   func(arg string) (Option, error)
}

var optionKinds = [...]optionKind{
	MaxRetryOpt:  newOptionKind("MaxRetry", MaxRetry, strconv.Atoi),
	QueueOpt:     newOptionKind("Queue", Queue, strconv.Unquote),
	TimeoutOpt:   newOptionKind("Timeout", Timeout, time.ParseDuration),
	DeadlineOpt:  newOptionKind("Deadline", Deadline, parseOptionTime),
	UniqueOpt:    newOptionKind("Unique", Unique, time.ParseDuration),
	ProcessAtOpt: newOptionKind("ProcessAt", ProcessAt, parseOptionTime),
	ProcessInOpt: newOptionKind("ProcessIn", ProcessIn, time.ParseDuration),
	TaskIDOpt:    newOptionKind("TaskID", TaskID, strconv.Unquote),
	RetentionOpt: newOptionKind("Retention", Retention, time.ParseDuration),
	GroupOpt:     newOptionKind("Group", Group, strconv.Unquote),
	HeaderOpt:    newOptionKind("Header", func(pair [2]string) Option { return Header(pair[0], pair[1]) }, parseHeader),

	IdempotencyKeyOpt: newOptionKind("IdempotencyKey", func(pair [2]string) Option { return idempotencyKeyOption(pair) }, parsePair),
	UniqueKeyOpt:      newOptionKind("UniqueKey", func(pair [2]string) Option { return uniqueKeyOption(pair) }, parsePair),
	OnDuplicateOpt:    newOptionKind("OnDuplicate", OnDuplicate, parsePolicy),
	DebounceOpt:       newOptionKind("Debounce", func(v [3]string) Option { return debounceOption(v) }, parseTriple),
	ThrottleOpt:       newOptionKind("Throttle", func(pair [2]string) Option { return throttleOption(pair) }, parsePair),
	ExpiresInOpt:      newOptionKind("ExpiresIn", ExpiresIn, time.ParseDuration),
	PartitionKeyOpt:   newOptionKind("PartitionKey", PartitionKey, strconv.Unquote),
	AwaitableOpt:      newOptionKind("Awaitable", func(bool) Option { return Awaitable() }, parseNothing),
	CancelOnReturnOpt: newOptionKind("CancelOnReturn", func(bool) Option { return CancelOnReturn() }, parseNothing),
}

func newOptionKind[T any](name string, option func(T) Option, parse func(string) (T, error)) optionKind {
	return optionKind{
		name: name,
		convert: func(opt Option) (Option, error) {
			v, ok := opt.Value().(T)
			if !ok {
				return nil, fmt.Errorf("asynq: option %v: its Value is of type %T, want %T", opt, opt.Value(), v)
			}
			return option(v), nil
		},
		parse: func(arg string) (Option, error) {
			v, err := parse(arg)
			if err != nil {
				return nil, err
			}
			return option(v), nil
		},
	}
}

// ownOption converts an option that is implemented in another package. It returns nil if opt is nil
// or a nil pointer.
func ownOption(opt Option) (Option, error) {
	if isNilValue(opt) {
		return nil, nil
	}
	kind := opt.Type()
	if kind < 0 || int(kind) >= len(optionKinds) {
		return nil, fmt.Errorf("asynq: option %v: unknown type %d", opt, kind)
	}
	return optionKinds[kind].convert(opt)
}

// withoutNil returns a copy of opts without nil options; nil if opts is nil.
func withoutNil(opts []Option) []Option {
	return slices.DeleteFunc(slices.Clone(opts), func(opt Option) bool { return isNilValue(opt) })
}

// ownOptions returns a copy of opts without nil options, and with options of other packages
// converted.
func ownOptions(opts []Option) ([]Option, error) {
	own := withoutNil(opts)
	for i := range own {
		var err error
		if own[i], err = ownOption(own[i]); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// exactOption returns an option as Go source with exact times, which Option.String rounds to
// seconds.
func exactOption(opt Option) string {
	if t, ok := opt.Value().(time.Time); ok {
		name, _, _ := strings.Cut(opt.String(), "(")
		return fmt.Sprintf("%s(%s)", name, t.UTC().Format(time.RFC3339Nano))
	}
	return opt.String()
}

// canonicalOptions returns the effective options in a fixed order: equal for lists with the same
// effect.
func canonicalOptions(opts []Option) []string {
	last := make(map[string]string, len(opts))
	for _, opt := range opts {
		kind := strconv.Itoa(int(opt.Type()))
		switch opt.Type() {
		case ProcessInOpt:
			kind = strconv.Itoa(int(ProcessAtOpt)) // the later of the two applies
		case UniqueKeyOpt, DebounceOpt, ThrottleOpt:
			kind = strconv.Itoa(int(UniqueOpt)) // the last one applies
		case HeaderOpt:
			kind += opt.Value().([2]string)[0]
		}
		last[kind] = exactOption(opt)
	}
	return slices.Sorted(maps.Values(last))
}

// parseOptions parses the output of Option.String or exactOption. It skips options that cannot be
// parsed: other versions and libraries may have written them.
func parseOptions(texts []string) []Option {
	var opts []Option
	for _, text := range texts {
		if opt, ok := parseOption(text); ok {
			opts = append(opts, opt)
		}
	}
	return opts
}

func parseOption(text string) (opt Option, ok bool) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), "(")
	arg, closed := strings.CutSuffix(rest, ")")
	kind := slices.IndexFunc(optionKinds[:], func(k optionKind) bool { return k.name == name })
	if kind < 0 || !closed {
		return nil, false
	}
	opt, err := optionKinds[kind].parse(arg)
	return opt, err == nil
}

// parseOptionTime parses the time of exactOption or Option.String. The latter contains an
// abbreviated time zone; only UTC and the local zone have a known offset.
func parseOptionTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.UnixDate, text)
	if err != nil {
		return time.Time{}, err
	}
	if t.Location() != time.UTC && t.Location() != time.Local {
		return time.Time{}, fmt.Errorf("the offset of %v is not known", t.Location())
	}
	return t, nil
}

// parsePair parses a quoted string and another value, separated by a comma.
func parsePair(text string) (pair [2]string, err error) {
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return pair, err
	}
	rest, ok := strings.CutPrefix(text[len(quoted):], ",")
	if !ok {
		return pair, strconv.ErrSyntax
	}
	pair[0], err = strconv.Unquote(quoted)
	pair[1] = strings.TrimSpace(rest)
	return pair, err
}

// parseHeader parses two quoted strings, separated by a comma.
func parseHeader(text string) ([2]string, error) {
	pair, err := parsePair(text)
	if err != nil {
		return pair, err
	}
	pair[1], err = strconv.Unquote(pair[1])
	return pair, err
}
