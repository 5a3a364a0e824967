package redis

import (
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/value"
)

// answerValue returns an answer as workflows see it: maps, lists, numbers, and texts, which are
// binary if they are not UTF-8.
func answerValue(m *rueidis.RedisMessage) (out value.Value, err error) {
	switch {
	case m.IsNil():
		return value.Null(), nil
	case m.IsInt64():
		n, err := m.ToInt64()
		return value.Int(n), err
	case m.IsFloat64():
		f, err := m.ToFloat64()
		return value.Float(f), err
	case m.IsBool():
		b, err := m.ToBool()
		return value.Bool(b), err
	case m.IsArray():
		list, err := m.ToArray()
		if err != nil {
			return out, err
		}
		values := make([]value.Value, len(list))
		for i := range list {
			if values[i], err = answerValue(&list[i]); err != nil {
				return out, err
			}
		}
		return value.List(values...), nil
	case m.IsMap():
		return mapValue(m)
	}
	if err := m.Error(); err != nil { // of one command of a transaction, or within the answer of a script
		return out, client.Describe(err)
	}
	made, err := m.ToAny() // a text of one of several forms
	text, ok := made.(string)
	if err == nil && !ok {
		err = unexpected("the server", nil)
	}
	return textValue(text), err
}

func mapValue(m *rueidis.RedisMessage) (out value.Value, err error) {
	all, err := m.ToMap()
	if err != nil {
		return out, err
	}
	fields := make([]value.Field, 0, len(all))
	for name, v := range all {
		made, err := answerValue(&v)
		if err != nil {
			return out, err
		}
		fields = append(fields, value.Field{Name: strings.ToValidUTF8(name, "\uFFFD"), Value: made})
	}
	slices.SortFunc(fields, func(a, b value.Field) int { return strings.Compare(a.Name, b.Name) })
	return value.Map(fields...), nil
}
