package otlp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/observe/otlp"
)

// TestAnswers checks which answers are followed by another attempt, and what is said of
// those that are not.
func TestAnswers(t *testing.T) {
	f := func(status int, header, body string, wantTries int, want string) {
		t.Helper()
		tries := 0
		r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) bool {
			if tries++; tries > 1 && status != http.StatusOK {
				return true
			}
			kind, value, _ := strings.Cut(header, ": ")
			w.Header().Set(kind, value)
			w.WriteHeader(status)
			if _, err := w.Write([]byte(body)); err != nil && len(body) < 4<<20 {
				t.Error(err) // longer ones are not read to the end
			}
			return false
		})
		log := make(lines, 1)
		e, err := otlp.New(otlp.Options{URL: r.URL, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		e.Recorder().Ended(timeline())
		err = e.Close(t.Context())
		if tries != wantTries || (err == nil) != (want == "") {
			t.Errorf("%d: got %d attempts, %v, want %d", status, tries, err, wantTries)
		}
		if want != "" {
			if got := log.next(t); !strings.Contains(got, want) {
				t.Errorf("%d: got log %s, want %s", status, got, want)
			}
		}
	}
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	f(429, "Retry-After: 0", "slowly", 2, "")
	f(502, "Retry-After: soon", "", 2, "")
	f(503, "Retry-After: "+past, "", 2, "")
	f(504, "Retry-After: -1", "", 2, "")
	f(429, "Retry-After: 61", "slowly", 1, "status 429 Too Many Requests: slowly") // later than a batch is retried
	f(503, "Retry-After: 99999999999999999", "", 1, "status 503 Service Unavailable")
	f(400, "Retry-After: 0", "no \xff spans", 1, "status 400 Bad Request: no \uFFFD spans")
	f(500, "Retry-After: 0", strings.Repeat("x", 8<<20), 1, "status 500 Internal Server Error: xxx")
	f(200, "Content-Type: text/plain", "\xff", 1, "")
	f(200, "Content-Type: application/x-protobuf; charset=x", "", 1, "")
	f(200, "Content-Type: application/x-protobuf", "\x0a\x05\x08", 1, "answer: ")
	f(200, "Content-Type: application/x-protobuf", "\x0a\x02\x08\xff", 1, "answer: ")
}

// TestTimeout retries a request that is not answered in time.
func TestTimeout(t *testing.T) {
	var tries atomic.Int32 // the first may go on while the second comes
	r := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if tries.Add(1) == 1 {
			<-r.Context().Done()
			return false
		}
		return true
	})
	e, err := otlp.New(otlp.Options{URL: r.URL, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	e.Recorder().Ended(timeline())
	if err := e.Close(t.Context()); err != nil || tries.Load() != 2 || e.Stats().Spans != 3 {
		t.Errorf("got %d attempts, %v, %+v, want 2", tries.Load(), err, e.Stats())
	}
}

// keyPair writes a certificate that signs itself, and its key.
func keyPair(t *testing.T) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, form, form, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "CERTIFICATE", public), writePEM(t, "PRIVATE KEY", private)
}

func writePEM(t *testing.T, kind string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestEnvironment sends to a receiver with TLS that asks for a certificate, with all that
// is needed for that in the environment. The variables for traces take precedence.
func TestEnvironment(t *testing.T) {
	cert, key := keyPair(t)
	clients := x509.NewCertPool()
	data, err := os.ReadFile(cert)
	if err != nil || !clients.AppendCertsFromPEM(data) {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		r := &receiver{}
		r.Server = httptest.NewUnstartedServer(r)
		r.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
		r.EnableHTTP2 = http2
		r.StartTLS()
		t.Cleanup(r.Close)
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", writePEM(t, "CERTIFICATE", r.Certificate().Raw))
		t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", cert)
		t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", key)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=no")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", " authorization = Bearer%20a%2Cb+c , x-other=1=2,, X-Key=environment,Content-Type=text/plain")
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment = blue%20one,service.name=no,")
		t.Setenv("OTEL_SERVICE_NAME", "shop")
		e, err := otlp.New(otlp.Options{URL: r.URL + "/custom", Headers: map[string]string{"X-Key": "k"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			e.Recorder().Ended(full())
		}
		if err := e.Close(t.Context()); err != nil || len(r.got()) != 2*5003 {
			t.Errorf("HTTP/2 %v: got %v, %d spans", http2, err, len(r.got()))
		}
		for name, want := range map[string]string{"Authorization": "Bearer a,b+c", "X-Other": "1=2", "X-Key": "k", "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"} {
			if got := r.mu.header.Get(name); got != want {
				t.Errorf("got header %s: %q, want %q", name, got, want)
			}
		}
		if r.mu.path != "/custom" || !strings.Contains(r.mu.resource, `"blue one"`) || !strings.Contains(r.mu.resource, `"shop"`) {
			t.Errorf("got path %s, resource %s", r.mu.path, r.mu.resource)
		}
	}
}

// TestBadEnvironment says which variable is wrong, and does not show headers.
func TestBadEnvironment(t *testing.T) {
	cert, _ := keyPair(t)
	f := func(url, name, value, want string) {
		t.Helper()
		t.Run(fmt.Sprint(name, value), func(t *testing.T) {
			t.Setenv("OTEL_"+name, value)
			if name == "EXPORTER_OTLP_CLIENT_CERTIFICATE" {
				t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", value)
			}
			_, err := otlp.New(otlp.Options{URL: url})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	f("http://127.0.0.1:1", "EXPORTER_OTLP_HEADERS", "hunter2", "OTEL_EXPORTER_OTLP_HEADERS: must be KEY=VALUE")
	f("http://127.0.0.1:1", "EXPORTER_OTLP_HEADERS", "a=hunter2%", "OTEL_EXPORTER_OTLP_HEADERS: must be")
	f("http://127.0.0.1:1", "EXPORTER_OTLP_HEADERS", "a=hunter2%0D%0Ab: c", "OTEL_EXPORTER_OTLP_HEADERS: must be")
	f("http://127.0.0.1:1", "EXPORTER_OTLP_HEADERS", "=hunter2", "OTEL_EXPORTER_OTLP_HEADERS: must be")
	f("http://127.0.0.1:1", "EXPORTER_OTLP_TRACES_HEADERS", "a b=hunter2", "OTEL_EXPORTER_OTLP_TRACES_HEADERS: must be")
	f("https://127.0.0.1:1", "EXPORTER_OTLP_CERTIFICATE", "/nowhere", "OTEL_EXPORTER_OTLP_CERTIFICATE: open /nowhere")
	f("https://127.0.0.1:1", "EXPORTER_OTLP_TRACES_CERTIFICATE", "client_test.go", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: no certificate in PEM form")
	f("https://127.0.0.1:1", "EXPORTER_OTLP_CLIENT_CERTIFICATE", cert, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: ")
	f("http://127.0.0.1:1", "RESOURCE_ATTRIBUTES", "a=hunter2%", "OTEL_RESOURCE_ATTRIBUTES: must be KEY=VALUE")
	f("http://127.0.0.1:1", "RESOURCE_ATTRIBUTES", "hunter2", "OTEL_RESOURCE_ATTRIBUTES: must be KEY=VALUE")
	f("http://127.0.0.1:1", "EXPORTER_OTLP_CERTIFICATE", cert, "must begin with https:")
}
