package mqtt

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// idProperty is the user property that has the id of a message: MQTT has none of its own.
const idProperty = "id"

// headerValue returns user properties as workflows see them: a map of texts, or of lists of
// texts where a name occurs several times; null without. It returns the one with the id, too.
func headerValue(user []packets.User) (header value.Value, id string) {
	if len(user) == 0 {
		return value.Null(), ""
	}
	texts := make(map[string][]value.Value, len(user))
	var names []string
	for _, u := range user {
		if _, ok := texts[u.Key]; !ok {
			names = append(names, u.Key)
		}
		texts[u.Key] = append(texts[u.Key], value.String(u.Value))
		if u.Key == idProperty {
			id = u.Value
		}
	}
	fields := make([]value.Field, len(names))
	for i, name := range names {
		fields[i] = value.Field{Name: name, Value: value.List(texts[name]...)}
		if len(texts[name]) == 1 {
			fields[i].Value = texts[name][0]
		}
	}
	return value.UniqueMap(fields), id
}

// userOf is the opposite of headerValue.
func userOf(header value.Value, id string) (user []packets.User, err error) {
	if !header.IsNull() && header.Kind() != value.KindMap {
		return nil, node.Unusable("", fmt.Errorf("header: want a map, got %s", header.Kind()))
	}
	for name, v := range header.Fields() {
		if name == idProperty && id != "" {
			continue
		}
		list := []value.Value{v}
		if v.Kind() == value.KindList {
			list = list[:0]
			for _, e := range v.Elems() {
				list = append(list, e)
			}
		}
		for _, e := range list {
			user = append(user, packets.User{Key: name, Value: e.String()})
		}
	}
	if id != "" {
		user = append(user, packets.User{Key: idProperty, Value: id})
	}
	for _, u := range user {
		if !isText(u.Key) || !isText(u.Value) {
			return nil, node.Unusable("", errors.New("header: names and values are text in UTF-8, of at most 65535 bytes, without NUL"))
		}
	}
	return user, nil
}

// isText reports whether MQTT takes a text. A broker ends the connection for another one.
func isText(s string) bool {
	return len(s) <= longest && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// checkSize returns an error if a message may be larger than the packets that the broker takes:
// it would end the connection.
func checkSize(m *packets.Publish, largest int) error {
	size := len(m.Topic) + len(m.Payload) + len(m.Properties.CorrelationData) + 64 // all else is short
	for _, u := range m.Properties.User {
		size += len(u.Key) + len(u.Value) + 5
	}
	if size > largest {
		return node.Unusable("", fmt.Errorf("the message has about %d bytes, and the broker takes %d", size, largest))
	}
	return nil
}

// checkTopic returns an error if a topic, which a template may have made, is not one to
// publish to.
func checkTopic(topic string) error {
	switch {
	case topic == "" || !isText(topic):
		return node.Unusable("", fmt.Errorf("%q is not a topic", topic))
	case strings.ContainsAny(topic, "+#"):
		return node.Unusable("", fmt.Errorf("%q has wildcards, and messages need one topic", topic))
	}
	return nil
}
