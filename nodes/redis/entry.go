package redis

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/value"
)

// An entryID is the id of an entry of a stream: milliseconds, and a number within them.
type entryID struct{ ms, seq uint64 }

func parseEntryID(text string) (id entryID, err error) {
	ms, seq, found := strings.Cut(text, "-")
	if id.ms, err = strconv.ParseUint(ms, 10, 64); err == nil && found {
		id.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	return id, err
}

func (a entryID) String() string {
	return strconv.FormatUint(a.ms, 10) + "-" + strconv.FormatUint(a.seq, 10)
}

func (a entryID) less(b entryID) bool { return a.ms < b.ms || a.ms == b.ms && a.seq < b.seq }

// before returns the largest id that is smaller.
func (a entryID) before() entryID {
	switch {
	case a.seq > 0:
		return entryID{a.ms, a.seq - 1}
	case a.ms > 0:
		return entryID{a.ms - 1, math.MaxUint64}
	}
	return a
}

// An entry of a stream, which is the token of its message.
type entry struct {
	id     string
	at     entryID
	fields []rueidis.RedisMessage // name, value, name, ...
	bytes  int64
}

// parseEntries reads a list of [id, [name, value, ...]].
func parseEntries(m rueidis.RedisMessage) ([]*entry, error) {
	list, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	entries := make([]*entry, 0, len(list))
	for i := range list {
		if list[i].IsNil() {
			continue // it was deleted
		}
		pair, err := list[i].ToArray()
		if err != nil || len(pair) != 2 {
			return nil, unexpected("the stream", err)
		}
		e := &entry{}
		if e.id, err = pair[0].ToString(); err != nil {
			return nil, err
		}
		if e.at, err = parseEntryID(e.id); err != nil {
			return nil, err
		}
		if !pair[1].IsNil() { // it was deleted, in a group that has it still
			if e.fields, err = pair[1].ToArray(); err != nil {
				return nil, err
			}
		}
		for j := range e.fields {
			text, err := e.fields[j].ToString()
			if err != nil {
				return nil, err
			}
			e.bytes += int64(len(text))
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// entriesOf reads what XREADGROUP answers with: a map of streams with their entries.
func entriesOf(m rueidis.RedisMessage, stream string) ([]*entry, error) {
	streams, err := m.AsMap() // RESP3
	if err != nil {
		return nil, err
	}
	return parseEntries(streams[stream])
}

// unexpected returns the error of an answer that has another form than the command has.
func unexpected(what string, err error) error {
	if err == nil {
		err = errors.New("a list of another length")
	}
	return fmt.Errorf("%s has answered in a form that is not known: %w", what, err)
}

// field returns the text of a field.
func (e *entry) field(name string) (text string, ok bool) {
	for i := 0; i+1 < len(e.fields); i += 2 {
		if text, _ := e.fields[i].ToString(); text == name {
			text, _ = e.fields[i+1].ToString()
			return text, true
		}
	}
	return "", false
}

// values returns the fields, except for those of these names, as a map; null without any. A name
// that occurs several times has a list.
func (e *entry) values(without ...string) value.Value {
	names := make([]string, 0, len(e.fields)/2)
	texts := make(map[string][]value.Value, len(e.fields)/2)
	for i := 0; i+1 < len(e.fields); i += 2 {
		name, _ := e.fields[i].ToString() // parseEntries has seen that they are texts
		if slices.Contains(without, name) {
			continue
		}
		text, _ := e.fields[i+1].ToString()
		name = strings.ToValidUTF8(name, "\uFFFD")
		if texts[name] == nil {
			names = append(names, name)
		}
		texts[name] = append(texts[name], textValue(text))
	}
	if len(names) == 0 {
		return value.Null()
	}
	fields := make([]value.Field, len(names))
	for i, name := range names {
		if fields[i] = (value.Field{Name: name, Value: texts[name][0]}); len(texts[name]) > 1 {
			fields[i].Value = value.List(texts[name]...)
		}
	}
	return value.UniqueMap(fields)
}

func (e *entry) time() time.Time { return time.UnixMilli(int64(e.at.ms)).UTC() }

// textValue returns a text of Redis, which is bytes: binary if it is not UTF-8.
func textValue(text string) value.Value {
	if utf8.ValidString(text) {
		return value.String(text)
	}
	return value.Binary([]byte(text))
}
