package brokers_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/emersion/go-smtp"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// An initExample is a workflow that uniflow init has written, and that runs.
type initExample struct {
	folder string
	addr   string // on which it listens instead of port 8000
}

// startExample writes the example of a name as uniflow init does, replaces what is told in its
// files, and starts it. It is stopped at the end of the test, and has to end well.
func startExample(t *testing.T, name string, replace ...string) initExample {
	t.Helper()
	program := brokers.Program(t)
	e := initExample{t.TempDir(), freeport.Addr(t)}
	if out, err := exec.Command(program, "init", name, e.folder).CombinedOutput(); err != nil {
		t.Fatalf("init %s: %v\n%s", name, err, out)
	}
	_, port, _ := strings.Cut(e.addr, ":")
	words := strings.NewReplacer(append(replace, "port: 8000", "port: "+port)...)
	for _, file := range []string{"flow.yaml", "values.yaml"} {
		path := filepath.Join(e.folder, file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(words.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "start", "-e", "ACCESS_KEY="+brokers.S3User, "-e", "SECRET_KEY="+brokers.S3Secret)
	cmd.Dir, cmd.Stdout, cmd.Stderr = e.folder, log, log
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
	return e
}

// command runs a command of uniflow in the folder of an example, and returns what it prints.
func (e initExample) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(brokers.Program(t), args...)
	cmd.Dir = e.folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("uniflow %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A receiver is a service that examples call. It keeps what it gets.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex
	got []string // method, path and body
}

// newReceiver starts a receiver that answers with what status makes of a request.
func newReceiver(t *testing.T, status func(request string) int) *receiver {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the client has left
		}
		request := strings.TrimSpace(fmt.Sprint(req.Method, " ", req.URL.Path, " ", string(body)))
		r.mu.Lock()
		r.got = append(r.got, request)
		r.mu.Unlock()
		w.WriteHeader(status(request))
	}))
	t.Cleanup(r.Close)
	return r
}

// forget forgets what was got.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = nil
}

func (r *receiver) has(request string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.got, request)
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
	e := startExample(t, "webhook", "nats://127.0.0.1:4222", server.URL())
	values, err := os.ReadFile(filepath.Join(e.folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(string(values), "secret: true\n  data: ")
	secret, _, _ = strings.Cut(secret, " ")
	const body = `{"ref": "main"}`
	post := func(signature string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.addr+"/hooks", strings.NewReader(body))
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
	redis := servertest.StartRedis(t, servertest.RedisOptions{})
	startExample(t, "cache", "127.0.0.1:9092", kafka.Addr, "127.0.0.1:6379", redis.Addr())
	producer, client := kafka.Client(t), brokers.ConnectRedis(t, redis, "")
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

// TestExampleDeliver publishes two orders on RabbitMQ. The receiver is away, then takes one of
// them, and refuses the other until that is sent again.
func TestExampleDeliver(t *testing.T) {
	server := brokers.StartAMQP(t)
	var away, refuses atomic.Bool
	away.Store(true)
	refuses.Store(true)
	r := newReceiver(t, func(request string) int {
		switch {
		case away.Load():
			return http.StatusServiceUnavailable
		case refuses.Load() && strings.Contains(request, `"order":8`):
			return http.StatusUnprocessableEntity
		}
		return http.StatusNoContent
	})
	shop := freeport.Addr(t)
	_, port, _ := strings.Cut(shop, ":")
	url := "amqp://" + server.Addr() + "/" + server.Vhost(t)
	e := startExample(t, "deliver", "amqp://127.0.0.1:5672", url, "url: '{{ .RABBIT }}'", "url: '{{ .RABBIT }}'\n  user: ann\n  password: correct",
		"http://localhost:8001/events", r.URL+"/events", "port: 8001", "port: "+port, "initial: 1s", "initial: 50ms")
	for _, order := range []string{"7", "8"} {
		until(t, "the shop has published an order", func() bool {
			res, err := http.Post("http://"+shop+"/orders", "application/json", strings.NewReader(`{"order": `+order+`}`))
			if err != nil {
				return false // not listening yet
			}
			res.Body.Close()
			return res.StatusCode == http.StatusAccepted
		})
	}
	until(t, "the receiver was asked", func() bool { return r.has(`POST /events {"order":7}`) && r.has(`POST /events {"order":8}`) })
	r.forget()
	away.Store(false)
	refused := filepath.Join(e.folder, "refused.ndjson")
	until(t, "an order is taken, and one refused", func() bool {
		text, _ := os.ReadFile(refused)
		return r.has(`POST /events {"order":7}`) && strings.Count(string(text), "\n") == 1
	})
	http.DefaultClient.CloseIdleConnections()
	refuses.Store(false)
	r.forget()
	e.command(t, "dead", "requeue", "refused.ndjson", "flow.yaml")
	if !r.has(`POST /events {"order":8}`) || r.has(`POST /events {"order":7}`) {
		t.Errorf("sent again: got %q", r.got)
	}
}

// TestExamplesOnPostgres runs the examples that need PostgreSQL, each on a database of its own.
func TestExamplesOnPostgres(t *testing.T) {
	server, err := servertest.StartPostgres("wal_level=logical")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	database := func(t *testing.T, name string) (url string, conn *pgx.Conn) {
		t.Helper()
		admin, err := pgx.Connect(t.Context(), server.PostgresURL())
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close(context.Background())
		if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
			t.Fatal(err)
		}
		url = strings.Replace(server.PostgresURL(), "/postgres?", "/"+name+"?", 1)
		if conn, err = pgx.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		return url, conn
	}
	const source = "postgres://postgres@localhost:5432/postgres?sslmode=disable"
	// rows returns the rows of a query as JSON, or null while it fails, as there may be no table yet.
	rows := func(t *testing.T, conn *pgx.Conn, query string) string {
		var text *string
		if err := conn.QueryRow(t.Context(), "SELECT json_agg(r)::text FROM ("+query+") r").Scan(&text); err != nil || text == nil {
			return "null"
		}
		return *text
	}

	t.Run("search", func(t *testing.T) {
		url, conn := database(t, "search")
		do := func(statement string) {
			t.Helper()
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		do("CREATE TABLE products (id int PRIMARY KEY, name text)")
		do("INSERT INTO products VALUES (1, 'tea')")
		r := newReceiver(t, func(string) int { return http.StatusOK })
		startExample(t, "search", source, url, "http://localhost:9200", r.URL)
		until(t, "the index has what was there", func() bool { return r.has(`PUT /products/_doc/1 {"id":1,"name":"tea"}`) })
		do("UPDATE products SET name = 'green tea'")
		do("DELETE FROM products")
		until(t, "the index has the change", func() bool { return r.has(`PUT /products/_doc/1 {"id":1,"name":"green tea"}`) })
		until(t, "the row has left the index", func() bool { return r.has("DELETE /products/_doc/1") })
	})

	t.Run("sensors", func(t *testing.T) {
		url, conn := database(t, "sensors")
		mqtt := brokers.StartMQTT(t)
		e := startExample(t, "sensors", source, url, "mqtt://127.0.0.1:1883", "mqtt://"+mqtt.Addr(), "client_id: temperatures", "client_id: temperatures\n  user: ann\n  password: correct")
		peer, err := dialMQTT(mqtt.Addr(), "cellar")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { peer.conn.Close() })
		id := uint16(0)
		publish := func(body string) {
			t.Helper()
			id++
			if _, err := peer.ask(&packets.Publish{Topic: "sensors/cellar", Payload: []byte(body), QoS: 1, PacketID: id, Properties: new(packets.Properties)}, packets.PUBLISH); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "what is not a reading is told", func() bool { // also that the source has subscribed
			publish(`{"celsius": 1}`)
			text, _ := os.ReadFile(filepath.Join(e.folder, "failed.ndjson"))
			return len(text) > 0
		})
		publish(`{"celsius": 11, "time": "2026-01-31T12:00:10Z"}`)
		publish(`{"celsius": 12, "time": "2026-01-31T12:00:20Z"}`)
		publish(`{"celsius": 20, "time": "2026-01-31T12:01:00Z"}`)
		const want = `[{"sensor":"sensors/cellar","celsius":11.5,"readings":2}]`
		until(t, "a minute is stored", func() bool {
			return rows(t, conn, "SELECT sensor, celsius, readings FROM temperatures WHERE minute = '2026-01-31T12:00:00Z'") == want
		})
	})

	t.Run("queue", func(t *testing.T) {
		url, conn := database(t, "queue")
		e := startExample(t, "queue", source, url)
		until(t, "there is a table of jobs", func() bool {
			_, err := conn.Exec(t.Context(), `INSERT INTO jobs (task) VALUES ('{"greet": "ann"}'), ('{}'), ('{"greet": "bob"}')`)
			return err == nil
		})
		// The notification of the jobs may be lost, as the program may not listen yet: that of another one wakes it.
		until(t, "the jobs are done, but one that fails", func() bool {
			if _, err := conn.Exec(t.Context(), "NOTIFY jobs"); err != nil {
				t.Fatal(err)
			}
			return rows(t, conn, "SELECT task, tries, due > now() AS later FROM jobs") == `[{"task":{},"tries":1,"later":true}]`
		})
		done, err := os.ReadFile(filepath.Join(e.folder, "done.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(string(done)) // in any order: two notifications work at a time
		slices.Sort(lines)
		if !slices.Equal(lines, []string{`{"hello":"ann"}`, `{"hello":"bob"}`}) {
			t.Errorf("done: got %q", done)
		}
	})

	t.Run("warehouse", func(t *testing.T) {
		url, conn := database(t, "warehouse")
		s := newS3System(t, brokers.S3Options{})
		e := startExample(t, "warehouse", source, url, "http://127.0.0.1:9000", s.server.URL(s.server.Addr), "bucket: shop", "bucket: "+brokers.S3Bucket)
		orders, err := os.ReadFile(filepath.Join(e.folder, "orders.csv"))
		if err != nil {
			t.Fatal(err)
		}
		s.put(t, "new/orders.csv", append(orders, "4,jam,two,3.10\n"...))
		const want = `[{"n":3,"total":28.30}]`
		until(t, "the rows are in the table", func() bool {
			return rows(t, conn, "SELECT count(*) AS n, round(sum(total)::numeric, 2) AS total FROM orders") == want
		})
		until(t, "the file has moved", func() bool {
			return len(s.keys(t, "new/")) == 0 && slices.Equal(s.keys(t, "done/"), []string{"done/orders.csv"})
		})
		if text, err := os.ReadFile(filepath.Join(e.folder, "rejects.ndjson")); err != nil || !strings.Contains(string(text), `"item":"jam"`) {
			t.Errorf("rejects: got %s, %v", text, err)
		}
	})
}

// TestExampleArchive archives the events of its file, and reads what it has written.
func TestExampleArchive(t *testing.T) {
	s := newS3System(t, brokers.S3Options{})
	startExample(t, "archive", "http://127.0.0.1:9000", s.server.URL(s.server.Addr), "bucket: shop", "bucket: "+brokers.S3Bucket, "linger: 2s", "linger: 200ms")
	until(t, "there is a file", func() bool { return len(s.keys(t, "events/")) > 0 })
	var got string
	for _, key := range s.keys(t, "events/") {
		data := s.get(t, key)
		r, err := format.NewParquetReader(bytes.NewReader(data), int64(len(data)), 0)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.Read(10)
		text, _ := value.List(rows...).AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		got += string(text)
		r.Close()
	}
	if want := `[{"id":1,"user":"ann","event":"signup"},{"id":2,"user":"bob","event":"signup"},{"id":3,"user":"ann","event":"order"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestExampleReport takes the mail of a report.
func TestExampleReport(t *testing.T) {
	mails := make(mailbox, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(mails)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	e := startExample(t, "report", "data: localhost", "data: 127.0.0.1", "data: 1025", "data: "+port)
	e.command(t, "call", "report")
	m := <-mails
	for _, want := range []string{"Subject: Orders of the week", "To: <boss@example.com>", "<td>tea</td><td>3</td><td>13.50 EUR</td>"} {
		if !strings.Contains(m, want) {
			t.Errorf("the mail lacks %q:\n%s", want, m)
		}
	}
}

// A mailbox takes all mails.
type mailbox chan string

func (m mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }
func (m mailbox) Mail(string, *smtp.MailOptions) error        { return nil }
func (m mailbox) Rcpt(string, *smtp.RcptOptions) error        { return nil }
func (m mailbox) Reset()                                      {}
func (m mailbox) Logout() error                               { return nil }

func (m mailbox) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	m <- string(data)
	return err
}
