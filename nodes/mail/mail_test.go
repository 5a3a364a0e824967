package mail

import (
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

func TestMain(m *testing.M) { leak.Main(m) }

const password = "a correct horse"

// A server takes mail from one user, and refuses what a test asks it to.
type server struct {
	host string
	port int
	cert string // PEM

	mu     sync.Mutex
	taken  []received
	refuse error         // of the next DATA
	hold   chan struct{} // DATA waits for it
	at     chan struct{} // DATA has begun
}

type received struct {
	from string
	to   []string
	data string
}

type session struct {
	s *server
	r received
}

func (s *server) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{s: s}, nil }

func (x *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (x *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, pass string) error {
		if user != "shop" || pass != password {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	x.r.from = from
	return nil
}

func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "nobody@") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	}
	x.r.to = append(x.r.to, to)
	return nil
}

func (x *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	x.s.mu.Lock()
	refuse, hold, at := x.s.refuse, x.s.hold, x.s.at
	x.s.refuse, x.s.hold = nil, nil
	x.s.mu.Unlock()
	if hold != nil {
		close(at)
		<-hold
	}
	if refuse != nil {
		return refuse
	}
	x.r.data = string(data)
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.s.taken = append(x.s.taken, x.r)
	return nil
}

func (x *session) Reset()        { x.r = received{} }
func (x *session) Logout() error { return nil }

// serve starts a server with STARTTLS, or with TLS from the beginning.
func serve(t *testing.T, fromTLS bool) *server {
	t.Helper()
	cert, key := flowtest.Certificate(t, 1)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{host: "127.0.0.1", port: l.Addr().(*net.TCPAddr).Port, cert: cert}
	srv := smtp.NewServer(s)
	srv.Domain, srv.ErrorLog, srv.MaxMessageBytes = "localhost", quiet{}, 16<<20
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
	if fromTLS {
		l = tls.NewListener(l, srv.TLSConfig)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// flow loads a node that sends to the server, with more fields.
func (s *server) flow(t *testing.T, fields string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"})...)
	f.Load("- kind: mail\n  name: m\n  host: " + s.host + "\n  port: " + strconv.Itoa(s.port) + "\n  user: shop\n  password: '" + password +
		"'\n  tls: {ca: \"" + strings.ReplaceAll(s.cert, "\n", "\\n") + "\"}\n" + fields)
	return f
}

// TestParts sends a mail with all parts, and reads what the server has got.
func TestParts(t *testing.T) {
	s := serve(t, false)
	f := s.flow(t, `  from: Läden <shop@example.com>
  subject: Größe ${string(self.n)}
  header: {X-Campaign: spring}
  html: <b>${self.text}</b>
`)
	payload := flowtest.Parse(t, `{"n": 7, "to": ["ann@example.com", "Bob <bob@example.com>"], "cc": "cid@example.com", "bcc": "dan@example.com", "text": "one\ntwo",
		"attachments": [{"name": "täble.csv", "data": "a,b\n1,2\n"}, {"name": "logo.png", "type": "image/png", "id": "logo", "data": "xyz"}]}`)
	resp := f.Send("m", payload)
	if resp.IsError() {
		t.Fatal(flowtest.Show(resp))
	}
	to, _ := resp.Payload.Get("to")
	if to.String() != `["ann@example.com","bob@example.com","cid@example.com","dan@example.com"]` {
		t.Errorf("got %s", resp.Payload)
	}
	if len(s.taken) != 1 || s.taken[0].from != "shop@example.com" || !slices.Equal(s.taken[0].to, []string{"ann@example.com", "bob@example.com", "cid@example.com", "dan@example.com"}) {
		t.Fatalf("got %+v", s.taken)
	}
	m, err := mail.ReadMessage(strings.NewReader(s.taken[0].data))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "Größe 7" || m.Header.Get("X-Campaign") != "spring" || m.Header.Get("Bcc") != "" {
		t.Errorf("got the header %v, %v", m.Header, err)
	}
	id, _ := resp.Payload.Get("id")
	if text, _ := id.AsString(); m.Header.Get("Message-Id") != "<"+text+">" && m.Header.Get("Message-ID") != "<"+text+">" {
		t.Errorf("got the id %s and the header %v", id, m.Header)
	}
	var got []string
	walk(t, m.Header.Get("Content-Type"), m.Body, &got)
	for _, want := range []string{"text/plain one\r\ntwo", "text/html <b>one\r\ntwo</b>", "image/png logo.png <logo>", "text/csv täble.csv"} {
		if !slices.ContainsFunc(got, func(part string) bool { return strings.HasPrefix(part, want) || strings.Contains(part, want) }) {
			t.Errorf("no part %q in %q", want, got)
		}
	}
}

// walk lists the parts of a message.
func walk(t *testing.T, contentType string, r io.Reader, got *[]string) {
	t.Helper()
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	for parts := multipart.NewReader(r, params["boundary"]); ; {
		p, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		mediaType, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if strings.HasPrefix(mediaType, "multipart/") {
			walk(t, p.Header.Get("Content-Type"), p, got)
			continue
		}
		data, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		name, err := new(mime.WordDecoder).DecodeHeader(p.FileName())
		if err != nil {
			t.Fatal(err)
		}
		if name == "" {
			*got = append(*got, mediaType+" "+string(data))
		} else {
			*got = append(*got, mediaType+" "+name+" "+p.Header.Get("Content-Id"))
		}
	}
}

// TestPayloads are payloads that are a mail, and those that are none.
func TestPayloads(t *testing.T) {
	s := serve(t, false)
	f := s.flow(t, "")
	send := func(fields, payload, want string) {
		t.Helper()
		flow := f
		if fields != "" {
			flow = s.flow(t, fields)
		}
		if got := flowtest.Show(flow.Send("m", flowtest.Parse(t, payload))); !strings.Contains(got, want) || strings.Contains(got, password) {
			t.Errorf("%s: got %s, want %s", payload, got, want)
		}
	}
	send("  from: a@example.com\n  to: b@example.com\n", `"only a text"`, `"to":["b@example.com"]`)
	send("  from: a@example.com\n  to: b@example.com\n", `null`, `"to":["b@example.com"]`)
	send("", `{"from": "a@example.com", "to": "b@example.com"}`, `"to":["b@example.com"]`)
	send("", `{"to": "b@example.com"}`, "from is missing")
	send("", `{"from": "a@example.com"}`, "to is missing")
	send("", `{"from": "a@example.com", "to": "not an address"}`, `to: "not an address" is not an address`)
	send("", `{"from": "a@example.com", "to": 7}`, "to must be a text, got integer")
	send("", `{"from": "a@example.com", "to": [7]}`, "to must have texts, got integer")
	send("", `{"from": "a@example.com, c@example.com", "to": "b@example.com"}`, "from has 2 addresses, and at most 1")
	send("", `{"from": "a@example.com", "to": "b@example.com\r\nBcc: c@example.com"}`, "to must be one line")
	send("", `{"from": "a@example.com", "to": "b@example.com", "subject": "x\nBcc: c@example.com"}`, "subject must be one line")
	send("", `{"from": "a@example.com", "to": "b@example.com", "attachments": [{"name": "../x", "data": ""}]}`, "attachments[0]: must have a name, without a path")
	send("", `{"from": "a@example.com", "to": "b@example.com", "attachments": [{"name": "x", "data": 1}]}`, "attachments[0]: data must be text or binary, got integer")
	send("", `{"from": "a@example.com", "to": "b@example.com", "attachments": {}}`, "attachments must be a list, got map")
	send("", `{"from": "a@example.com", "to": "b@example.com, nobody@example.com"}`, `550 "5.1.1 no such user"`)
	send("", `{"from": "a@example.com", "to": "b@example.com", "text": "`+strings.Repeat("x", 8<<20)+`"}`, `"to":["b@example.com"]`)
	secure := serve(t, true)
	if got := flowtest.Show(secure.flow(t, "  encryption: tls\n").Send("m", flowtest.Parse(t, `{"from": "a@example.com", "to": "b@example.com"}`))); !strings.Contains(got, `"to":["b@example.com"]`) {
		t.Errorf("TLS from the beginning: got %s", got)
	}
	for _, r := range s.taken {
		if slices.Contains(r.to, "c@example.com") || slices.Contains(r.to, "nobody@example.com") {
			t.Errorf("sent to %v", r.to)
		}
	}
}

// TestAway is a server that is away, that asks to come again, that is too late, or that cannot be
// trusted.
func TestAway(t *testing.T) {
	s := serve(t, false)
	const addressed = `{"from": "a@example.com", "to": "b@example.com", "text": "x"}`
	f := func(flow *flowtest.Flow, want string, outage, permanent bool) {
		t.Helper()
		resp := flow.Send("m", flowtest.Parse(t, addressed))
		got := flowtest.Show(resp)
		if !resp.IsError() || !strings.Contains(got, want) || strings.Contains(got, "wrong horse") {
			t.Fatalf("got %s, want %s", got, want)
		}
		if e := node.Describe(resp.Payload.AsError()); e.Outage != outage || e.IsPermanent() != permanent {
			t.Errorf("%s: got outage %t, permanent %t", got, e.Outage, e.IsPermanent())
		}
	}
	s.refuse = &smtp.SMTPError{Code: 421, Message: "come again"}
	f(s.flow(t, ""), "421", true, false)
	s.refuse = &smtp.SMTPError{Code: 451, Message: "busy"}
	f(s.flow(t, ""), "451", false, false)
	s.refuse = &smtp.SMTPError{Code: 554, Message: "looks like spam"}
	f(s.flow(t, ""), "554", false, true)
	f(s.flow(t, "  encryption: tls\n"), "first record does not look like a TLS handshake", false, false)

	away := &server{host: s.host, port: 1, cert: s.cert}
	f(away.flow(t, ""), "connection refused", true, false)
	flow := flowtest.New(t, Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"})...)
	flow.Load("- {kind: mail, name: m, host: 127.0.0.1, port: " + strconv.Itoa(s.port) + ", user: shop, password: a wrong horse, tls: {skip_verify: true}}")
	f(flow, "535", false, false)
	flow = flowtest.New(t, Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"})...)
	flow.Load("- {kind: mail, name: m, host: 127.0.0.1, port: " + strconv.Itoa(s.port) + "}")
	f(flow, "certificate", false, false)

	release := s.holds()
	f(s.flow(t, "  timeout: 100ms\n"), "not taken within 100ms", true, false)
	release()
	release = s.holds()
	call := s.flow(t, "").Start("m", flowtest.Parse(t, addressed))
	<-s.at
	call.Cancel()
	if resp := call.Response(); !resp.IsError() {
		t.Errorf("a process that was cancelled has the answer %s", flowtest.Show(resp))
	}
	release()
}

// holds lets mails wait at their end, until it is released.
func (s *server) holds() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := make(chan struct{})
	s.hold, s.at = hold, make(chan struct{})
	return func() { close(hold) }
}
