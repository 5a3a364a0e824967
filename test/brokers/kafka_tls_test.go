package brokers_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/uniflow-labs/uniflow/test/brokers"
)

// TestKafkaTLS connects with the right authority, and names the field for each mistake.
func TestKafkaTLS(t *testing.T) {
	cert, key := certificateFiles(t)
	other, otherKey := certificateFiles(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(text)
	plain := brokers.FakeKafka(t, kfake.SeedTopics(1, "orders"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	mutual := brokers.FakeKafka(t, kfake.SeedTopics(1, "orders"),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority}))
	for _, c := range []struct {
		server *brokers.Kafka
		fields string
		want   string // of the error; empty for none
	}{
		{plain, fmt.Sprintf("tls: {ca: %q}", cert), ""},
		{plain, fmt.Sprintf("tls: {ca: %q}", other), "tls.ca: "},
		{plain, fmt.Sprintf("tls: {ca: %q, server_name: example.com}", cert), "tls.server_name: "},
		{plain, fmt.Sprintf("tls: {ca: %q}", key), "tls.ca: "},
		{mutual, fmt.Sprintf("tls: {ca: %[1]q, cert: %[1]q, key: %[2]q}", cert, key), ""},
		{mutual, fmt.Sprintf("tls: {ca: %q, cert: %q, key: %q}", cert, cert, otherKey), "tls.cert: "},
	} {
		for _, kind := range []string{"kafka_source, topics: [orders]", "kafka_sink, topic: orders"} {
			f := natsFlow(t)
			list, err := f.Apply(fmt.Sprintf("- {kind: %s, name: n, brokers: [%q], %s}", kind, c.server.Addr, c.fields))
			got := fmt.Sprint(list, err)
			if refused := err != nil || list.HasErrors(); refused != (c.want != "") || !strings.Contains(got, c.want) || strings.Contains(f.Log(), "connecting failed") {
				t.Errorf("%s, %s: got %s\n%s\nwant %q", kind, c.fields, got, f.Log(), c.want)
			}
			f.Close()
		}
	}
}
