package asynq

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// exactOption returns an option as Go source, but times with all their digits: Option.String rounds them to seconds.
func exactOption(opt Option) string {
	if t, ok := opt.Value().(time.Time); ok {
		name, _, _ := strings.Cut(opt.String(), "(")
		return fmt.Sprintf("%s(%s)", name, t.UTC().Format(time.RFC3339Nano))
	}
	return opt.String()
}

// canonicalOptions returns the options that hold, exactly and in a fixed order: two lists that say the same come to the same.
func canonicalOptions(opts []Option) []string {
	last := make(map[string]string, len(opts))
	for _, opt := range opts {
		kind := strconv.Itoa(int(opt.Type()))
		switch opt.Type() {
		case ProcessInOpt:
			kind = strconv.Itoa(int(ProcessAtOpt)) // the later one of both holds
		case HeaderOpt:
			kind += opt.Value().([2]string)[0]
		}
		last[kind] = exactOption(opt)
	}
	texts := make([]string, 0, len(last))
	for _, text := range last {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// parseOptions reads options as Option.String or exactOption prints them. What cannot be read is left out: it may come from another
// version, or another library.
func parseOptions(texts []string) []Option {
	var opts []Option
	for _, text := range texts {
		if opt, ok := parseOption(text); ok {
			opts = append(opts, opt)
		}
	}
	return opts
}

// parseOption reads one option.
func parseOption(text string) (Option, bool) {
	name, rest, ok := strings.Cut(strings.TrimSpace(text), "(")
	arg, closed := strings.CutSuffix(rest, ")")
	if !ok || !closed {
		return nil, false
	}
	switch name {
	case "MaxRetry":
		return parsed(arg, strconv.Atoi, MaxRetry)
	case "Queue":
		return parsed(arg, strconv.Unquote, Queue)
	case "TaskID":
		return parsed(arg, strconv.Unquote, TaskID)
	case "Group":
		return parsed(arg, strconv.Unquote, Group)
	case "Timeout":
		return parsed(arg, time.ParseDuration, Timeout)
	case "Unique":
		return parsed(arg, time.ParseDuration, Unique)
	case "ProcessIn":
		return parsed(arg, time.ParseDuration, ProcessIn)
	case "Retention":
		return parsed(arg, time.ParseDuration, Retention)
	case "Deadline":
		return parsed(arg, parseOptionTime, Deadline)
	case "ProcessAt":
		return parsed(arg, parseOptionTime, ProcessAt)
	case "Header":
		return parsed(arg, parsePair, func(pair [2]string) Option { return Header(pair[0], pair[1]) })
	default:
		return nil, false
	}
}

func parsed[T any](arg string, parse func(string) (T, error), option func(T) Option) (Option, bool) {
	v, err := parse(arg)
	if err != nil {
		return nil, false
	}
	return option(v), true
}

// parseOptionTime reads a time with all its digits, or one as Option.String prints it. The latter names its zone by letters, of which
// only those of UTC and of the zone of this process mean a certain offset.
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

// parsePair reads two strings with a comma between them.
func parsePair(text string) ([2]string, error) {
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return [2]string{}, err
	}
	key, err := strconv.Unquote(quoted)
	if err != nil {
		return [2]string{}, err
	}
	rest, ok := strings.CutPrefix(text[len(quoted):], ",")
	if !ok {
		return [2]string{}, strconv.ErrSyntax
	}
	value, err := strconv.Unquote(strings.TrimSpace(rest))
	return [2]string{key, value}, err
}
