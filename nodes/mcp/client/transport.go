package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// transport returns what a connection is made with, and what releases it afterwards.
func (c *Client) transport() (t sdk.Transport, release func(), err error) {
	if c.s.url == "" {
		cmd := c.s.program()
		return &sdk.CommandTransport{Command: cmd, TerminateDuration: endProgram}, func() { killGroup(cmd) }, nil
	}
	config, err := c.s.tls.Config()
	if err != nil {
		return nil, nil, stream.Place(err, c.s.config)
	}
	base := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: c.s.connect,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 16,
		ForceAttemptHTTP2:   true,
	}
	return &sdk.StreamableClientTransport{
		Endpoint: c.s.url,
		HTTPClient: &http.Client{
			Transport:     &requests{base, c.s.header, c.s.most, c.life},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for one server
		},
		MaxRetries:           -1, // an answer that was cut is an error: whether the tool ran is not known
		DisableStandaloneSSE: true,
		MaxEventSize:         -1, // requests have a limit
	}, base.CloseIdleConnections, nil
}

// requests are the requests of a client: with its headers, and answers that are not
// longer than they may be. They end with the client.
type requests struct {
	base   http.RoundTripper
	header http.Header
	most   int64
	life   context.Context
}

// A statusError is an answer of HTTP that says why there is no answer of the protocol.
type statusError struct{ status int }

func (e *statusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.status, http.StatusText(e.status))
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += ": check token"
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		text += ": redirects are not followed, so write the URL that it leads to"
	}
	return text
}

// RoundTrip implements [http.RoundTripper].
func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(r.life, cancel)
	end := func() {
		stop()
		cancel()
	}
	req = req.Clone(ctx)
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "uniflow")
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		end()
		return nil, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code >= 300 && code < 400:
		end()
		return nil, errors.Join(&statusError{code}, resp.Body.Close())
	}
	tooLong, _ := ctx.Value(tooLongKey{}).(*atomic.Bool)
	resp.Body = &limited{resp.Body, r.most, tooLong, end}
	return resp, nil
}

var errTooLong = errors.New("the answer is longer than answer_bytes allows")

// tooLongKey is the key of what the requests of a call say of their answers: the library
// does not pass the error of a body on.
type tooLongKey struct{}

func watchLength(ctx context.Context) context.Context {
	return context.WithValue(ctx, tooLongKey{}, new(atomic.Bool))
}

// wasTooLong reports whether an answer was longer than it may be.
func wasTooLong(ctx context.Context) bool {
	tooLong, ok := ctx.Value(tooLongKey{}).(*atomic.Bool)
	return ok && tooLong.Load()
}

// limited is the body of an answer that must not be too long.
type limited struct {
	io.ReadCloser
	left    int64
	tooLong *atomic.Bool // set when it is; nil outside of a call
	end     func()
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, errTooLong
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left+1)])
	l.left -= int64(n)
	if l.left < 0 {
		if l.tooLong != nil {
			l.tooLong.Store(true)
		}
		return n, errTooLong
	}
	return n, err
}

func (l *limited) Close() error {
	l.end()
	return l.ReadCloser.Close()
}

// endProgram is how long a program may take to end after its input has, before it is
// asked to with a signal; and as long again before it is killed.
const endProgram = 2 * time.Second

// inherited are the variables of the environment that a program gets.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "TMPDIR"}

// inheritedWindows are those without which programs do not run there.
var inheritedWindows = []string{"SystemRoot", "SystemDrive", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PATHEXT", "ProgramFiles"}

// program returns what starts the program.
func (s *Settings) program() *exec.Cmd {
	cmd := exec.Command(s.command[0], s.command[1:]...)
	names := inherited
	if runtime.GOOS == "windows" {
		names = append(names[:len(names):len(names)], inheritedWindows...)
	}
	for _, name := range names {
		if text, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+text)
		}
	}
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Dir = s.dir
	cmd.Stderr = &lines{log: s.log.With("program", s.command[0])}
	cmd.WaitDelay = endProgram // a child of its own may keep the output open
	ownGroup(cmd)
	return cmd
}

// maxLine is how much of a line of a program is logged.
const maxLine = 1 << 10

// lines logs what a program writes to its standard error, for those who look for a
// mistake. One goroutine writes.
type lines struct {
	log  *slog.Logger
	line []byte
}

func (l *lines) Write(p []byte) (int, error) {
	for text := range strings.Lines(string(p)) {
		l.line = append(l.line, text[:min(len(text), maxLine-len(l.line))]...)
		if !strings.HasSuffix(text, "\n") {
			break
		}
		l.log.Debug("the program says", "line", strings.TrimSpace(string(l.line)))
		l.line = l.line[:0]
	}
	return len(p), nil
}
