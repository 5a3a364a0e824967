package brokers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// mistake serves a document, and returns why it does not start.
func mistake(t *testing.T, document string) string {
	t.Helper()
	f := flowtest.New(t, std.Defs("")...)
	list, err := f.Apply(document)
	return fmt.Sprint(list, err)
}

// A queue and an exchange that are missing are errors with their place, at the start; a record
// for an exchange that is missing is an error of its own.
func TestAMQPMissing(t *testing.T) {
	server := brokers.StartAMQP(t)
	vhost := server.Vhost(t)
	at := fmt.Sprintf("url: 'amqp://%s/%s', user: ann, password: correct", server.Addr(), vhost)
	for _, c := range []struct{ document, want string }{
		{"- {kind: amqp_source, name: n, queue: nothing, " + at + "}", `no queue "nothing"`},
		{"- {kind: amqp_sink, name: n, exchange: nothing, " + at + "}", `no exchange "nothing"`},
		{"- {kind: amqp_source, name: n, queue: q, " + strings.Replace(at, vhost, "nowhere", 1) + "}", `virtual host "nowhere" does not exist`},
	} {
		if got := mistake(t, c.document); !strings.Contains(got, c.want) || !strings.Contains(got, "test.yaml:1:") {
			t.Errorf("%s: got %s, want %s", c.document, got, c.want)
		}
	}
	f := flowtest.New(t, std.Defs("")...)
	if list, err := f.Apply("- {kind: amqp_sink, name: n, exchange: '${self.to}', routing_key: q, mandatory: false, encode: text, " + at + "}"); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	for to, want := range map[string]string{"nothing": `no exchange "nothing"`, "amq.topic": "<nil>"} {
		_, _, err := f.Engine().Run(t.Context(), "n", value.Map(value.Field{Name: "to", Value: value.String(to)}))
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("to %s: got %s, want %s", to, got, want)
		}
	}
}

// What a broker says of one message of MQTT 5 is the error of that message.
func TestMQTTRefusals(t *testing.T) {
	server := brokers.StartMQTT(t)
	f := flowtest.New(t, std.Defs("")...)
	if list, err := f.Apply(fmt.Sprintf("- {kind: mqtt_sink, name: n, topic: '${self.to}', url: 'mqtt://%s', user: ann, password: correct}", server.Addr())); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	for to, want := range map[string]string{"secret": "not authorized", "free": "<nil>", "a/+": "has wildcards", "": "is not a topic"} {
		_, _, err := f.Engine().Run(t.Context(), "n", value.Map(value.Field{Name: "to", Value: value.String(to)}))
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("to %q: got %s, want %s", to, got, want)
		}
	}
}
