package brokers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/test/brokers"
)

// TestNATSTLS connects with the right authority, and names the field for each mistake.
func TestNATSTLS(t *testing.T) {
	cert, key := certificateFiles(t)
	other, otherKey := certificateFiles(t)
	plain := brokers.StartNATS(t, brokers.NATSOptions{Memory: true, Cert: cert, Key: key})
	mutual := brokers.StartNATS(t, brokers.NATSOptions{Memory: true, Cert: cert, Key: key, CA: cert})
	for _, c := range []struct {
		server *brokers.NATS
		fields string
		want   string // of the error; empty for none
	}{
		{plain, fmt.Sprintf("tls: {ca: %q}", cert), ""},
		{plain, "tls: {skip_verify: true}", ""},
		{plain, fmt.Sprintf("tls: {ca: %q}", other), "tls.ca: "},
		{plain, fmt.Sprintf("tls: {ca: %q, server_name: example.com}", cert), "tls.server_name: "},
		{plain, fmt.Sprintf("tls: {ca: %q}", key), "tls.ca: "},
		{mutual, fmt.Sprintf("tls: {ca: %[1]q, cert: %[1]q, key: %[2]q}", cert, key), ""},
		{mutual, fmt.Sprintf("tls: {ca: %q}", cert), "tls.cert: "},
		{mutual, fmt.Sprintf("tls: {ca: %q, cert: %q, key: %q}", cert, other, otherKey), "tls.cert: "},
		{mutual, fmt.Sprintf("tls: {ca: %q, cert: %q, key: %q}", cert, cert, otherKey), "tls.cert: "},
	} {
		for _, kind := range []string{"nats_source, subjects: a", "nats_sink, subject: a", "nats_request, subject: a"} {
			f := natsFlow(t)
			list, err := f.Apply(fmt.Sprintf("- {kind: %s, name: n, urls: %q, %s}", kind, c.server.URL(), c.fields))
			got := fmt.Sprint(list, err)
			if refused := err != nil || list.HasErrors(); refused != (c.want != "") || !strings.Contains(got, c.want) || strings.Contains(f.Log(), "connecting failed") {
				t.Errorf("%s, %s: got %s\n%s\nwant %q", kind, c.fields, got, f.Log(), c.want)
			}
			f.Close()
		}
	}
}

// certificateFiles makes a certificate for 127.0.0.1 that signs itself.
func certificateFiles(t *testing.T) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: rand.Text()}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	public, err := x509.CreateCertificate(rand.Reader, form, form, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: public}, "key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}
