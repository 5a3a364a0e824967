package parts

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestComment sends a comment in a stream of events, unless something was sent lately.
func TestComment(t *testing.T) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", "text/event-stream")
	limits := pace.Limits{Log: slog.New(slog.DiscardHandler)}
	pending := pace.NewPending(&pace.Rate{Grace: time.Second, Min: 1}, nil, func() *pace.Limits { return &limits })
	p := New(t.Context(), Env{
		W: w, R: r, SetHeaders: func(http.Header, bool) {}, Header: func() *request.Header { return nil },
	}, pending.Writer(w, r, &limits))
	defer p.Release()
	if err := p.Part(p.Context(), value.String("x")); err != nil {
		t.Fatal(err)
	}
	p.sendComment() // something was sent lately
	p.sendComment()
	if !p.Close() {
		t.Error("there were no parts")
	}
	if err := p.EncodeEnd(node.Response{None: true}); err != nil {
		t.Error(err)
	}
	const want = "retry: 1000\n\ndata: x\n\n:\n\nevent: end\ndata: \n\n"
	if e := p.Finish(nil); w.Body.String() != want || e != (Ended{Status: 200, Size: len(want)}) {
		t.Errorf("got %q and %+v, want %q", w.Body.String(), e, want)
	}
}
