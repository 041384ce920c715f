package asynq

import "fmt"

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
