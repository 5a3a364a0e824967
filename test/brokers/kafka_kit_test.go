package brokers_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

const wrongPassword = "a wrong horse"

// kafkaSystem is a fake cluster with the user ann.
func kafkaSystem(t testing.TB) *streamtest.System {
	k := brokers.FakeKafka(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "ann", "r1ght"), kfake.SeedTopics(16, "in"), kfake.SeedTopics(1, "out"),
		kfake.GroupMinSessionTimeout(500*time.Millisecond), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000000"}))
	k.Login("ann", "r1ght")
	refuse := func() { // the fake cluster would close the connection
		k.Fake.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
			k.Fake.KeepControl()
			if !bytes.Contains(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, []byte(wrongPassword)) {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
			return resp, nil, true
		})
	}
	refuse()
	fields := func(kind, addr string, more map[string]any) map[string]any {
		more["kind"], more["brokers"] = kind, []any{addr}
		more["sasl"] = map[string]any{"mechanism": "plain", "user": "ann", "password": "r1ght"}
		return more
	}
	var producer *kgo.Client
	return &streamtest.System{
		Addr:      k.Addr,
		Advertise: k.Advertise,
		Restart: func(t testing.TB) {
			k.Stop()
			k.Start(t)
			refuse()
		},
		Source: func(addr string) map[string]any {
			return fields("kafka_source", addr, map[string]any{"topics": []any{"in"}, "group": "g", "session": "1s"})
		},
		Produce: func(t testing.TB, messages []streamtest.Message) {
			if producer == nil {
				producer = k.Client(t, kgo.ProducerBatchMaxBytes(16<<20))
			}
			var rs []*kgo.Record
			for _, m := range messages {
				rs = append(rs, &kgo.Record{Topic: "in", Key: []byte(m.Key), Value: m.Body})
			}
			if err := producer.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		},
		Unsettled: func(testing.TB) int {
			left := int64(0)
			group := k.Fake.GroupInfo("g")
			for p := range int32(16) {
				left += k.Fake.PartitionInfo("in", p).HighWatermark
				if group != nil {
					left -= group.Commits["in"][p].Offset
				}
			}
			return int(left)
		},
		Sink: func(addr string) map[string]any {
			return fields("kafka_sink", addr, map[string]any{"topic": "${self.key == 'reject' ? 'no topic!' : 'out'}", "max_message": "16MB"})
		},
		Consume: func(t testing.TB) (bodies [][]byte) {
			n := k.Fake.PartitionInfo("out", 0).HighWatermark
			for _, rec := range records(t, k, "out", int(n)) {
				bodies = append(bodies, rec.Value)
			}
			return bodies
		},
		Reject: func() value.Value {
			return value.Map(value.Field{Name: "body", Value: value.String("x")}, value.Field{Name: "key", Value: value.String("reject")})
		},
		Refuse: func(fields map[string]any) (field, secret string) {
			fields["sasl"] = map[string]any{"mechanism": "plain", "user": "ann", "password": wrongPassword}
			return "sasl.password", wrongPassword
		},
	}
}

func TestKafkaKit(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{Kinds: std.Defs(""), Source: true, Sink: true, System: kafkaSystem})
}
