package web_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// TestACME gets certificates of a real authority by both challenges. The certificate is the
// same after a reload and after a restart, as authorities count what they sign.
func TestACME(t *testing.T) {
	pebble := buildPebble(t)
	uniflow, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("tls-alpn-01", func(t *testing.T) { acme(t, uniflow, pebble, "") })
	t.Run("http-01", func(t *testing.T) { acme(t, uniflow, pebble, "http-01") })
	t.Run("http-01 with a listener", func(t *testing.T) { acme(t, uniflow, pebble, "listener") })
	t.Run("external account", func(t *testing.T) { externalAccount(t, uniflow, pebble) })
}

// externalAccount asks an authority that knows its customers, without an account of one, with
// one whose key is wrong, and as it should be.
func externalAccount(t *testing.T, uniflow, pebble string) {
	const right, wrong = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W", "b10lLJs8l1GPIzsLP0s6pMt8O0XVGnfTaCeROxQM0BIt2XrJMDHJZBM5NuQmQJQH"
	dir := t.TempDir()
	directory, admin, port, plain := freeport.Port(t), freeport.Port(t), freeport.Port(t), freeport.Port(t)
	selfSigned(t, dir)
	write(t, filepath.Join(dir, "pebble.json"), `{"pebble": {"listenAddress": "127.0.0.1:%d", "managementListenAddress": "127.0.0.1:%d",
		"certificate": "ca.pem", "privateKey": "ca.key", "httpPort": %d, "tlsPort": %d,
		"externalAccountBindingRequired": true, "externalAccountMACKeys": {"customer 7": "%s"}}}`, directory, admin, plain, port, right)
	ca := startProgram(t, dir, []string{"PEBBLE_VA_NOSLEEP=1"}, pebble, "-config", "pebble.json", "-strict")
	ca.wait("ACME directory available", 1)
	roots := certificates(t, fmt.Sprintf("https://127.0.0.1:%d/roots/0", admin))
	workflow := filepath.Join(dir, "flow.yaml")
	start := func(eab string) *program {
		write(t, workflow, `
- {kind: listener, name: web, port: %d, tls: {acme: {domains: [localhost], directory: "https://localhost:%d/dir", storage: store, ca: ca.pem%s}}, ports: {out: [{name: pong}]}}
- {kind: snippet, name: pong, language: text, code: pong}
`, port, directory, eab)
		return startProgram(t, dir, []string{asProgram + "=1"}, uniflow, "start", workflow)
	}
	for _, refused := range []string{"", ", eab: {key_id: customer 7, hmac: " + wrong + "}", ", eab: {key_id: another, hmac: " + right + "}"} {
		p := start(refused)
		p.wait("certificate not obtained", 1)
		p.stop()
		if log := strings.Join(p.all(), "\n"); strings.Contains(log, "msg=ready") || strings.Contains(log, right) || strings.Contains(log, wrong) {
			t.Errorf("%s: got %s, want no certificate, and no key", refused, log)
		}
	}
	p := start(", eab: {key_id: customer 7, hmac: " + right + "==}")
	p.wait("msg=ready", 1)
	body, first := get(t, roots, port)
	if body != "pong" {
		t.Errorf("got %q, want the answer of the workflow", body)
	}
	p.stop()
	p = start("") // storage has the account, and the certificate
	p.wait("msg=ready", 1)
	if _, second := get(t, roots, port); !second.Equal(first) {
		t.Error("got another certificate after a restart")
	}
	p.stop()
	if log := strings.Join(p.all(), "\n"); strings.Contains(log, right) {
		t.Errorf("log: got %s, want no key", log)
	}
}

// buildPebble builds the authority, and returns the file. It builds with the flags of the
// release, with which the standard library is compiled already.
func buildPebble(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pebble")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", file, "github.com/letsencrypt/pebble/v2/cmd/pebble")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return file
}

func acme(t *testing.T, uniflow, pebble, challenge string) {
	dir := t.TempDir()
	directory, admin, port, plain := freeport.Port(t), freeport.Port(t), freeport.Port(t), freeport.Port(t)
	selfSigned(t, dir)
	write(t, filepath.Join(dir, "pebble.json"), `{"pebble": {"listenAddress": "127.0.0.1:%d", "managementListenAddress": "127.0.0.1:%d",
		"certificate": "ca.pem", "privateKey": "ca.key", "httpPort": %d, "tlsPort": %d}}`, directory, admin, plain, port)
	workflow := filepath.Join(dir, "flow.yaml")
	text := `
- {kind: listener, name: web, port: %d, tls: {acme: {domains: [localhost], directory: "https://localhost:%d/dir", storage: store, ca: ca.pem%s}}, ports: {out: [{name: pong}]}}
- {kind: snippet, name: pong, language: text, code: %s}
`
	more := ""
	if challenge != "" {
		more = fmt.Sprintf(", challenge: http-01, http_port: %d", plain)
	}
	if challenge == "listener" {
		text += fmt.Sprintf("- {kind: listener, name: plain, port: %d, ports: {out: [{name: pong}]}}\n", plain)
	}
	write(t, workflow, text, port, directory, more, "first")

	// The authority is not there yet: the program says what it waits for.
	p := startProgram(t, dir, []string{asProgram + "=1"}, uniflow, "start", workflow)
	p.wait(`no certificate for localhost yet`, 1)
	p.stop()

	ca := startProgram(t, dir, []string{"PEBBLE_VA_NOSLEEP=1"}, pebble, "-config", "pebble.json")
	ca.wait("ACME directory available", 1)
	roots := certificates(t, fmt.Sprintf("https://127.0.0.1:%d/roots/0", admin))
	p = startProgram(t, dir, []string{asProgram + "=1"}, uniflow, "start", workflow)
	p.wait("msg=ready", 1)
	body, first := get(t, roots, port)
	if body != "first" {
		t.Errorf("got %q, want the answer of the workflow", body)
	}
	write(t, workflow, text, port, directory, more, "second")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.wait(`msg="generation drained" generation=1`, 1)
	body, second := get(t, roots, port)
	if body != "second" || !second.Equal(first) {
		t.Errorf("got %q, the same certificate: %v; want it after a reload", body, second.Equal(first))
	}
	p.stop()
	p = startProgram(t, dir, []string{asProgram + "=1"}, uniflow, "start", workflow)
	p.wait("msg=ready", 1)
	if _, third := get(t, roots, port); !third.Equal(first) {
		t.Error("got another certificate after a restart")
	}
	if log := strings.Join(p.all(), "\n"); strings.Contains(log, "certificate obtained") || strings.Contains(log, "PRIVATE KEY") {
		t.Errorf("log: got %s, want no order", log)
	}
	p.stop()
}

// get asks a listener, and returns its answer and its certificate.
func get(t *testing.T, roots *x509.CertPool, port int) (body string, leaf *x509.Certificate) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get(fmt.Sprintf("https://localhost:%d/", port))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), resp.TLS.PeerCertificates[0]
}

// certificates returns the authorities at a URL whose server is not known.
func certificates(t *testing.T, url string) *x509.CertPool {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for { // the server says that it listens before it does
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			select {
			case <-again.C:
				continue
			case <-ctx.Done():
				t.Fatal(err)
			}
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(data) {
			t.Fatalf("authority: %v: %s", err, data)
		}
		return pool
	}
}

// selfSigned writes a certificate for localhost and its key into a folder.
func selfSigned(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "ca.pem"), "%s", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, filepath.Join(dir, "ca.key"), "%s", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}
