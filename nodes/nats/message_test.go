package nats

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestParseAck(t *testing.T) {
	want := ackMeta{"ORDERS", 17, 3, time.Unix(0, 1700000000000000001).UTC()}
	for _, reply := range []string{
		"$JS.ACK.ORDERS.shop.3.17.4.1700000000000000001.5",
		"$JS.ACK._.hash.ORDERS.shop.3.17.4.1700000000000000001.5",
		"$JS.ACK.hub.hash.ORDERS.shop.3.17.4.1700000000000000001.5.token",
	} {
		if got, ok := parseAck(reply); !ok || got != want {
			t.Errorf("%s: got %+v, %t", reply, got, ok)
		}
	}
	for _, reply := range []string{"", "_INBOX.1", "$JS.ACK.", "$JS.ACK.ORDERS.shop.0.17.4.1.5", "$JS.ACK.ORDERS.shop.3.17.4.x.5", "$JS.ACK.ORDERS.shop.3.17.4.1.5.6"} {
		if got, ok := parseAck(reply); ok {
			t.Errorf("%s: got %+v", reply, got)
		}
	}
}

func FuzzParseAck(f *testing.F) {
	f.Add("$JS.ACK.ORDERS.shop.3.17.4.1700000000000000001.5")
	f.Add("$JS.ACK.hub.hash.ORDERS.shop.3.17.4.1.5.token")
	f.Fuzz(func(t *testing.T, reply string) {
		library, err := (&nats.Msg{Reply: reply, Sub: &nats.Subscription{}}).Metadata()
		got, ok := parseAck(reply)
		if ok && (err != nil || got.stream != library.Stream || got.sequence != library.Sequence.Stream || uint64(got.delivered) != library.NumDelivered) {
			t.Errorf("got %+v, the library has %+v, %v", got, library, err)
		}
	})
}

func TestParsePubAck(t *testing.T) {
	for _, c := range []struct {
		in, want string
		status   int
	}{
		{`{"stream":"S","seq":7}`, `{"stream":"S","sequence":7}`, 0},
		{`{"stream":"S", "seq": 7}`, `{"stream":"S","sequence":7}`, 0},
		{`{"stream":"S","seq":7,"duplicate":true}`, `{"stream":"S","sequence":7,"duplicate":true}`, 0},
		{`{"stream":"S","domain":"hub","seq":7}`, `{"stream":"S","sequence":7}`, 0},
		{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}`, "wrong last sequence: 3", 409},
		{`{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"S","seq":0}`, "maximum messages exceeded", 503},
		{`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"S","seq":0}`, "message size", 500},
		{`{"error":{"code":429,"err_code":10167,"description":"too many requests"},"stream":"S","seq":0}`, "too many requests", 429},
		{`{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"},"stream":"S","seq":0}`, "in process", 503},
		{`hello`, "not that of JetStream", 0},
		{`{}`, "not that of JetStream", 0},
	} {
		ack, err := parsePubAck([]byte(c.in))
		got := ack.receipt().String()
		if err != nil {
			got = err.Error()
		}
		var e *node.Error
		if errors.As(err, &e); !strings.Contains(got, c.want) || c.status != 0 && (e == nil || e.Status != c.status) {
			t.Errorf("%s: got %s, %v, want %s, %d", c.in, got, e, c.want, c.status)
		}
	}
}

func FuzzPlainPubAck(f *testing.F) {
	f.Add([]byte(`{"stream":"S","seq":7}`))
	f.Add([]byte(`{"stream":"S", "seq": 7}`))
	f.Add([]byte(`{"stream":"S","seq":7,"duplicate":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := plainPubAck(data)
		if !ok || strings.ContainsFunc(string(data), func(r rune) bool { return r < ' ' || r > '~' }) {
			return
		}
		var want pubAck
		if err := json.Unmarshal(data, &want); err == nil && (got.Stream != want.Stream || got.Sequence != want.Sequence || want.Duplicate || want.Error != nil) {
			t.Errorf("%s: got %+v, want %+v", data, got, want)
		}
	})
}

func TestHeader(t *testing.T) {
	h := nats.Header{"A": {"1"}, "B": {"2", "3"}, "Nats-Expected-Stream": {"OTHER"}, "Empty": {}}
	v := headerValue(h)
	if got, want := v.String(), `{"A":"1","B":["2","3"]}`; got != want && got != `{"B":["2","3"],"A":"1"}` {
		t.Errorf("got %s, want %s", got, want)
	}
	back, err := headerOf(v, 0)
	if err != nil || back.Get("A") != "1" || len(back["B"]) != 2 {
		t.Errorf("got %v, %v", back, err)
	}
	for _, name := range []string{"", "a b", "a:b", "a\r\nb", "ü"} {
		if _, err := headerOf(value.Map(value.Field{Name: name, Value: value.String("x")}), 0); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
}

func TestCheckSubject(t *testing.T) {
	for subject, want := range map[string]bool{
		"a": true, "a.b-c_d.7": true, "a*b": true, "": false, ".a": false, "a.": false, "a..b": false, "a b": false, "a\r\nPUB x": false, "a.*": false, "a.>": false, ">": false,
	} {
		if err := checkSubject(subject); (err == nil) != want {
			t.Errorf("%q: got %v", subject, err)
		}
	}
}
