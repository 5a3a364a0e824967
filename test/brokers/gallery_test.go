package brokers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/test/brokers"
)

// startExample writes the example of a name as uniflow init does, replaces what is told in its
// files, and starts it. It is stopped at the end of the test, and has to end well.
func startExample(t *testing.T, name string, replace ...string) (folder string) {
	t.Helper()
	program, folder := brokers.Program(t), t.TempDir()
	if out, err := exec.Command(program, "init", name, folder).CombinedOutput(); err != nil {
		t.Fatalf("init %s: %v\n%s", name, err, out)
	}
	for _, file := range []string{"flow.yaml", "values.yaml"} {
		path := filepath.Join(folder, file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "start")
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		log.Close()
		if text, _ := os.ReadFile(log.Name()); err != nil || t.Failed() {
			t.Errorf("uniflow start in %s: %v\n%s", name, err, text)
		}
	})
	return folder
}

// TestExampleWebhook posts a signed delivery twice: JetStream has it once.
func TestExampleWebhook(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{})
	js, err := jetstream.New(server.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "hooks", Subjects: []string{"hooks.>"}})
	if err != nil {
		t.Fatal(err)
	}
	addr := freeport.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	folder := startExample(t, "webhook", "port: 8000", "port: "+port, "nats://127.0.0.1:4222", server.URL())
	values, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(string(values), "secret: true\n  data: ")
	secret, _, _ = strings.Cut(secret, " ")
	const body = `{"ref": "main"}`
	post := func(signature string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/hooks", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "X-GitHub-Event": "push", "X-GitHub-Delivery": "1", "X-Hub-Signature-256": "sha256=" + signature,
		} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0 // not listening yet
		}
		res.Body.Close()
		return res.StatusCode
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	signature := hex.EncodeToString(mac.Sum(nil))
	until(t, "a signed delivery is accepted", func() bool { return post(signature) == http.StatusAccepted })
	if status := post(signature); status != http.StatusAccepted && status != http.StatusConflict {
		t.Errorf("again: status %d", status)
	}
	if status := post(strings.Repeat("0", 64)); status != http.StatusUnauthorized {
		t.Errorf("with a wrong signature: status %d", status)
	}
	http.DefaultClient.CloseIdleConnections()
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != 1 {
		t.Errorf("the stream has %d messages, want 1", info.State.Msgs)
	}
	message, err := stream.GetLastMsgForSubject(t.Context(), "hooks.push")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(message.Data); got != `{"ref":"main"}` {
		t.Errorf("the stream has %s", got)
	}
}

// TestExampleCache writes a product, and deletes it.
func TestExampleCache(t *testing.T) {
	kafka := brokers.FakeKafka(t)
	kafka.Create(t, "products", 1)
	redis := brokers.StartRedis(t, brokers.RedisOptions{})
	startExample(t, "cache", "127.0.0.1:9092", kafka.Addr, "127.0.0.1:6379", redis.Addr())
	producer, client := kafka.Client(t), redis.Connect(t)
	get := func() string {
		text, _ := client.Do(t.Context(), client.B().Get().Key("product:7").Build()).ToString()
		return text
	}
	write := func(value []byte) {
		t.Helper()
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: "products", Key: []byte("7"), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte(`{"name": "tea"}`))
	until(t, "Redis has the product", func() bool { return strings.Contains(get(), `"tea"`) })
	write(nil)
	until(t, "Redis has it no more", func() bool { return get() == "" })
}
