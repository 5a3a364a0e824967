package chat

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An answer is one message of a workflow.
type answer struct {
	text    string
	buttons []button
	files   []file
	edit    bool // it replaces the message before it
	failed  bool // it reports a failure
}

const (
	// mostAnswers is how many messages one answer may be; mostButtons and mostFiles are how
	// many buttons and files one message may have.
	mostAnswers, mostButtons, mostFiles = 32, 24, 16

	// mostText is how long the text of an answer may be, in bytes.
	mostText = 256 << 10
)

var errAnswer = errors.New("want a text, a map of text, buttons, files and edit (one of text, buttons and files at least), or a list of these")

// answersOf reads the answer of a process: a text, a map, or a list of them. Fields of a map
// that are not of an answer are ignored, such as the usage of a model.
func answersOf(v value.Value) ([]answer, error) {
	if v.Kind() != value.KindList {
		a, err := answerOf(v)
		if err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
		return []answer{a}, nil
	}
	if v.Len() > mostAnswers {
		return nil, fmt.Errorf("answer: got a list of %d messages, want at most %d", v.Len(), mostAnswers)
	}
	list := make([]answer, 0, v.Len())
	for i, elem := range v.Elems() {
		a, err := answerOf(elem)
		if err != nil {
			return nil, fmt.Errorf("answer [%d]: %w", i, err)
		}
		list = append(list, a)
	}
	return list, nil
}

func answerOf(v value.Value) (a answer, err error) {
	switch v.Kind() {
	case value.KindMap:
	case value.KindList, value.KindNull, value.KindBinary:
		return a, fmt.Errorf("got %s, %w", v.Kind(), errAnswer)
	default:
		a.text, err = textOf(v)
		return a, err
	}
	text, hasText := v.Get("text")
	buttons, hasButtons := v.Get("buttons")
	files, hasFiles := v.Get("files")
	if !hasText && !hasButtons && !hasFiles {
		return a, fmt.Errorf("got a map without them, %w", errAnswer)
	}
	if !text.IsNull() {
		if a.text, err = textOf(text); err != nil {
			return a, fmt.Errorf("text: %w", err)
		}
	}
	edit, _ := v.Get("edit")
	a.edit = edit.Truth()
	if a.buttons, err = listOf("buttons", buttons, mostButtons, buttonOf); err != nil {
		return a, err
	}
	a.files, err = listOf("files", files, mostFiles, fileOf)
	return a, err
}

// textOf reads text, or writes a number or a boolean as text.
func textOf(v value.Value) (string, error) {
	s, ok := v.AsString()
	if !ok {
		switch v.Kind() {
		case value.KindInt, value.KindUint, value.KindFloat, value.KindBool:
			s = v.String()
		default:
			return "", fmt.Errorf("want text, got %s", v.Kind())
		}
	}
	if len(s) > mostText {
		return "", fmt.Errorf("got %d bytes of text, want at most %d", len(s), mostText)
	}
	return strings.ToValidUTF8(s, "\uFFFD"), nil
}

func listOf[T any](name string, v value.Value, most int, of func(value.Value) (T, error)) ([]T, error) {
	switch {
	case v.IsNull():
		return nil, nil
	case v.Kind() != value.KindList:
		return nil, fmt.Errorf("%s: want a list, got %s", name, v.Kind())
	case v.Len() > most:
		return nil, fmt.Errorf("%s: got %d, want at most %d", name, v.Len(), most)
	}
	list := make([]T, 0, v.Len())
	for i, elem := range v.Elems() {
		item, err := of(elem)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		list = append(list, item)
	}
	return list, nil
}

// buttonOf reads a button: a text, which is its own data, or a map.
func buttonOf(v value.Value) (b button, err error) {
	if v.Kind() != value.KindMap {
		b.Text, err = textOf(v)
		b.Data = b.Text
		return b, err
	}
	if b.Text, err = fieldText(v, "text"); err != nil {
		return b, err
	}
	if b.Data, err = fieldText(v, "data"); err != nil {
		return b, err
	}
	if b.URL, err = fieldText(v, "url"); err != nil {
		return b, err
	}
	switch {
	case b.Text == "":
		return b, errors.New("want a map of text, and of data or url")
	case b.URL != "":
		return b, checkURL(b.URL)
	case b.Data == "":
		b.Data = b.Text
	}
	return b, nil
}

// fileOf reads a file: its address, or a map.
func fileOf(v value.Value) (f file, err error) {
	if s, ok := v.AsString(); ok {
		f.URL = s
	} else if f.URL, err = fieldText(v, "url"); err != nil {
		return f, err
	} else if f.Name, err = fieldText(v, "name"); err != nil {
		return f, err
	}
	if f.Name == "" {
		f.Name = f.URL[strings.LastIndexByte(f.URL, '/')+1:]
	}
	return f, checkURL(f.URL)
}

// checkURL lets addresses of the web through. Others, such as javascript:, would run.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		return fmt.Errorf("url: want an address with http or https, got %q", node.Clip(s, 80))
	}
	return nil
}

func fieldText(v value.Value, name string) (string, error) {
	field, _ := v.Get(name)
	if field.IsNull() {
		return "", nil
	}
	s, err := textOf(field)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// pieceOf reads a part of an answer: text is a piece of the message that is being written, a
// map is a message. A list has several.
func pieceOf(v value.Value) (piece string, isPiece bool, whole []answer, err error) {
	if _, isText := v.AsString(); isText {
		piece, err = textOf(v)
		return piece, true, nil, err
	}
	whole, err = answersOf(v)
	return "", false, whole, err
}

// public is an error that a client may read.
func public(status int, format string, args ...any) *node.Error {
	return &node.Error{Err: fmt.Errorf(format, args...), Status: status, Public: true}
}
