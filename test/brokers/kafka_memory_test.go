//go:build linux

package brokers_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/test/brokers"
)

const mib = 1 << 20

// A limited program reads the topic large, in the group g. It may have 512 MiB of data, and
// ends with more, as in a container.
type limited struct {
	t    *testing.T
	addr string // of a listener
	cmd  *exec.Cmd
	log  syncbuffer.Buffer
}

func startLimited(t *testing.T, k *brokers.Kafka, args ...string) *limited {
	t.Helper()
	p, file := &limited{t: t, addr: freeport.Addr(t)}, filepath.Join(t.TempDir(), "flow.yaml")
	_, port, _ := strings.Cut(p.addr, ":")
	if err := os.WriteFile(file, fmt.Appendf(nil, `
- {kind: listener, name: web, port: %s, ports: {out: [{name: ok}]}}
- {kind: snippet, name: ok, language: text, code: ok}
- {kind: kafka_source, name: source, brokers: ['%s'], topics: [large], group: g, bytes: 64MiB, max_in_flight: 10000, checkpoint: {interval: 10ms}, ports: {out: [{name: take}]}}
- {kind: snippet, name: take, language: cel, code: self.offset}
`, port, k.Addr), 0o600); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.CommandContext(context.Background(), "sh", append([]string{"-c", `ulimit -d 524288; exec "$0" start --from-specs "$@"`, brokers.Program(t), file}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	return p
}

// alive fails the test if the program has no memory left.
func (p *limited) alive() {
	p.t.Helper()
	if log := p.log.String(); strings.Contains(log, "fatal error") {
		p.t.Fatal(log[:min(2000, len(log))])
	}
}

// peak returns what the program has had in memory.
func (p *limited) peak() string {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, peak, _ := bytes.Cut(status, []byte("VmHWM:"))
	peak, _, _ = bytes.Cut(peak, []byte("\n"))
	return string(bytes.TrimSpace(peak))
}

// produceLarge writes records in batches of at most so many bytes, before they are compressed.
func produceLarge(t *testing.T, k *brokers.Kafka, codec kgo.CompressionCodec, batch int32, rs ...*kgo.Record) {
	t.Helper()
	client := k.Client(t, kgo.ProducerBatchMaxBytes(batch), kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MaxBufferedRecords(1<<20))
	if err := client.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestKafkaMemory reads topics that are far smaller compressed than decompressed and decoded.
func TestKafkaMemory(t *testing.T) {
	const partitions = 8
	zeros := []byte("[" + strings.TrimSuffix(strings.Repeat("0,", mib/4), ",") + "]")
	for _, c := range []struct {
		name    string
		codec   kgo.CompressionCodec
		random  int // records that do not become longer, before the others
		records int
		value   []byte
	}{
		{"zstd", kgo.ZstdCompression(), 0, 400, zeros},
		{"gzip", kgo.GzipCompression(), 0, 400, zeros},
		{"small records", kgo.ZstdCompression(), 0, 2_000_000, []byte("1")},
		{"suddenly", kgo.SnappyCompression(), 40, 400, zeros},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := brokers.FakeKafka(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000000"}))
			k.Create(t, "large", partitions)
			var rs []*kgo.Record
			random := rand.NewChaCha8([32]byte{})
			for range c.random {
				text := make([]byte, mib/4)
				if _, err := io.ReadFull(random, text); err != nil {
					t.Fatal(err)
				}
				rs = append(rs, &kgo.Record{Topic: "large", Value: fmt.Appendf(nil, `"%x"`, text)})
			}
			for range c.records {
				rs = append(rs, &kgo.Record{Topic: "large", Value: c.value})
			}
			produceLarge(t, k, c.codec, 4*mib, rs...)
			p := startLimited(t, k)
			eventually(t, "all messages", func() bool {
				p.alive()
				sum := int64(0)
				for n := range int32(partitions) {
					sum += k.Committed(t, "g", "large", n)
				}
				return sum == int64(len(rs))
			})
			t.Logf("peak %s resident, where 64 MiB are asked", p.peak())
		})
	}
}

// TestKafkaBatchTooLarge has one batch that must not be decompressed: its partition stops, and
// others go on.
func TestKafkaBatchTooLarge(t *testing.T) {
	k := brokers.FakeKafka(t)
	k.Create(t, "large", 2)
	rs := []*kgo.Record{{Topic: "large", Value: []byte(`"` + strings.Repeat("x", 20*mib) + `"`)}}
	client := k.Client(t, kgo.ProducerBatchMaxBytes(64*mib), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for range 10 {
		rs = append(rs, &kgo.Record{Topic: "large", Partition: 1, Value: []byte("1")})
	}
	if err := client.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	admin := freeport.Addr(t)
	p := startLimited(t, k, "--admin", admin)
	ready := func() (status int, text string) {
		resp, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(body)
	}
	eventually(t, "the other partition, and no readiness", func() bool {
		p.alive()
		status, text := ready()
		return k.Committed(t, "g", "large", 1) == 10 && status == http.StatusServiceUnavailable && strings.Contains(text, "large/0 stops at offset 0")
	})
	if n := k.Committed(t, "g", "large", 0); n > 0 {
		t.Errorf("offset %d of the partition that stops is committed", n)
	}
	if log := p.log.String(); !strings.Contains(log, "reading a partition has stopped") || !strings.Contains(log, "--memory") {
		t.Error(log)
	}
	p.cmd.Process.Kill()
	more := startLimited(t, k, "--memory", "400MiB")
	eventually(t, "the batch, with more memory", func() bool {
		more.alive()
		return k.Committed(t, "g", "large", 0) == 1
	})
}
