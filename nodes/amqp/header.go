package amqp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// longestName is how many bytes names and most properties of AMQP have at most.
const longestName = 255

// headerValue returns headers as workflows see them: a map of texts, or of lists of texts;
// null without. Numbers and times are texts, too, as a sink takes nothing else.
func headerValue(t amqp.Table) value.Value {
	if len(t) == 0 {
		return value.Null()
	}
	fields := make([]value.Field, 0, len(t))
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if list, ok := t[name].([]any); ok {
			texts := make([]value.Value, len(list))
			for i, v := range list {
				texts[i] = headerText(v)
			}
			fields = append(fields, value.Field{Name: name, Value: value.List(texts...)})
			continue
		}
		fields = append(fields, value.Field{Name: name, Value: headerText(t[name])})
	}
	return value.UniqueMap(fields)
}

func headerText(v any) value.Value {
	switch v := v.(type) {
	case nil:
		return value.String("")
	case string:
		return value.String(v)
	case []byte:
		return value.String(string(v))
	case time.Time:
		return value.String(v.UTC().Format(time.RFC3339))
	}
	return value.String(fmt.Sprint(v))
}

// headerOf is the opposite of headerValue.
func headerOf(v value.Value) (amqp.Table, error) {
	if v.IsNull() {
		return nil, nil
	}
	if v.Kind() != value.KindMap {
		return nil, node.Unusable("", fmt.Errorf("header: want a map, got %s", v.Kind()))
	}
	t := make(amqp.Table, v.Len())
	for name, text := range v.Fields() {
		if name == "" || len(name) > longestName {
			return nil, node.Unusable("", errors.New("header: a name has from 1 to 255 bytes"))
		}
		if text.Kind() != value.KindList {
			t[name] = text.String()
			if name == "CC" || name == "BCC" { // which the broker obeys, and takes as lists alone
				t[name] = []any{text.String()}
			}
			continue
		}
		list := make([]any, 0, text.Len())
		for _, e := range text.Elems() {
			list = append(list, e.String())
		}
		t[name] = list
	}
	return t, nil
}

// tableOf returns the arguments of a declaration.
func tableOf(v value.Value) amqp.Table {
	if v.Kind() != value.KindMap {
		return nil
	}
	t := make(amqp.Table, v.Len())
	for name, arg := range v.Fields() {
		t[name] = argument(arg)
	}
	return t
}

func argument(v value.Value) any {
	if n, ok := v.AsInt(); ok {
		return n
	}
	if f, ok := v.AsFloat(); ok {
		return f
	}
	if b, ok := v.AsBool(); ok {
		return b
	}
	if v.Kind() == value.KindMap {
		return tableOf(v)
	}
	return v.String()
}
