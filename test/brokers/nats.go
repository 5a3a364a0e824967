package brokers

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// NATSOptions are how a server of NATS is set up. The zero NATSOptions has JetStream, and
// lets anyone in.
type NATSOptions struct {
	Dir            string // of JetStream; a temporary folder unless set
	Port           int    // on 127.0.0.1; any unless set
	User, Password string
	Token          string
	Denied         string // a subject that must be neither published nor subscribed to
	Cert, Key, CA  string // files in PEM form: the server takes TLS only, and with CA only clients with a certificate of it
	Memory         bool   // without JetStream
	MaxPayload     int32
}

// A NATS is a server of NATS in this process, with JetStream in a folder.
type NATS struct {
	Port int

	options NATSOptions
	server  *server.Server
}

// StartNATS starts a server, and stops it at the end of the test.
func StartNATS(tb testing.TB, o NATSOptions) *NATS {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	n := &NATS{options: o}
	if err := n.start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(n.Stop)
	return n
}

// RunNATS starts a server outside of a test. The caller stops it.
func RunNATS(o NATSOptions) (*NATS, error) {
	n := &NATS{options: o}
	return n, n.start()
}

func (n *NATS) start() error {
	o := &server.Options{
		Host: "127.0.0.1", Port: n.options.Port, NoLog: true, NoSigs: true,
		JetStream: !n.options.Memory, StoreDir: n.options.Dir, MaxPayload: n.options.MaxPayload,
		DisableJetStreamBanner: true,
	}
	if o.Port == 0 {
		var err error
		if o.Port, err = freeport.Find(); err != nil {
			return err
		}
	}
	o.Username, o.Password, o.Authorization = n.options.User, n.options.Password, n.options.Token
	if denied := n.options.Denied; denied != "" {
		o.Username, o.Password = "", ""
		o.Users = []*server.User{{Username: n.options.User, Password: n.options.Password, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{denied}}, Subscribe: &server.SubjectPermission{Deny: []string{denied}},
		}}}
	}
	if n.options.Cert != "" {
		config, err := server.GenTLSConfig(&server.TLSConfigOpts{
			CertFile: n.options.Cert, KeyFile: n.options.Key, CaFile: n.options.CA, Verify: n.options.CA != "", Timeout: 5,
		})
		if err != nil {
			return err
		}
		o.TLSConfig, o.TLSTimeout = config, 5
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		return errors.New("nats-server is not ready for connections")
	}
	n.server = s
	n.Port = s.Addr().(*net.TCPAddr).Port
	n.options.Port = n.Port // also after Stop
	return nil
}

// Addr returns the host and the port.
func (n *NATS) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.Port)) }

// URL returns the URL for clients, without credentials.
func (n *NATS) URL() string { return "nats://" + n.Addr() }

// Stop stops the server. A second call does nothing.
func (n *NATS) Stop() {
	if n.server == nil {
		return
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
	n.server = nil
}

// Restart starts a server again that is stopped, on the same port and folder.
func (n *NATS) Restart(tb testing.TB) {
	tb.Helper()
	n.Stop()
	var err error
	for range 50 { // the port may be taken for a moment
		if err = n.start(); err == nil {
			return
		}
	}
	tb.Fatal(err)
}

// Connect returns a connection, which is closed at the end of the test. The program under
// test does not use it.
func (n *NATS) Connect(tb testing.TB) *nats.Conn {
	tb.Helper()
	o := []nats.Option{nats.UserInfo(n.options.User, n.options.Password), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}
	if n.options.Token != "" {
		o[0] = nats.Token(n.options.Token)
	}
	conn, err := nats.Connect(n.URL(), o...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

// Interest reports whether anything subscribes to a subject, of clients without an account.
func (n *NATS) Interest(subject string) bool {
	if s := n.server; s != nil {
		return s.GlobalAccount().Interest(subject) > 0
	}
	return false
}

// NATSProcess starts a server in a process of its own, whose processor time is its own.
func NATSProcess(tb testing.TB, dir string) *Process {
	tb.Helper()
	return Start(tb, "nats", "-dir", dir)
}
