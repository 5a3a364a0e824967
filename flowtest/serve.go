package flowtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// Serve is [Flow.Load] of a document with a listener, by the clock of the machine, since clients
// have no other.
func (f *Flow) Serve(document string) {
	f.tb.Helper()
	if f.Options.Clock == nil {
		f.Options.Clock = node.SystemClock{}
	}
	f.Load(document)
}

var listening = regexp.MustCompile(`msg=listening .*address=(\S+)`)

// Address returns the host and port of the listener that has begun to listen last, from the log.
func (f *Flow) Address() string {
	f.tb.Helper()
	found := listening.FindAllStringSubmatch(f.Log(), -1)
	if found == nil {
		f.tb.Fatalf("no listener; the log is:\n%s", f.Log())
	}
	return found[len(found)-1][1]
}

// Client returns a client of HTTP/1.1 whose connections end with the test. It follows no
// redirects and decompresses nothing. Any goroutine may call Client.
func (f *Flow) Client() *http.Client { return f.client() }

func (f *Flow) newClient() *http.Client {
	c := &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	f.tb.Cleanup(c.CloseIdleConnections)
	return c
}

// A Reply is an answer of HTTP whose body has been read.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// Request sends a request to [Flow.Address], and ends the test if no answer comes back. header has
// names and values in turns.
func (f *Flow) Request(method, path, body string, header ...string) Reply {
	f.tb.Helper()
	r, err := http.NewRequestWithContext(f.tb.Context(), method, "http://"+f.Address()+path, strings.NewReader(body))
	if err != nil {
		f.tb.Fatal(err)
	}
	if body == "" {
		r.Body = http.NoBody
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Add(header[i], header[i+1])
		}
	}
	resp, err := f.Client().Do(r)
	if err != nil {
		f.tb.Fatal(err)
	}
	reply, err := ReadReply(resp)
	if err != nil {
		f.tb.Fatal(err)
	}
	return reply
}

// ReadReply reads the rest of an answer, and closes it.
func ReadReply(resp *http.Response) (Reply, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, resp.Header, string(data)}, err
}

// Certificate makes a certificate for 127.0.0.1, which is its own authority and lasts an hour, and
// its key, as PEM.
func Certificate(tb testing.TB, serial int64) (cert, key string) {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	public, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))
}
