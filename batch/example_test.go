package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// A Click is an event of the examples.
type Click struct {
	User string `json:"user"`
	Page string `json:"page"`
}

// appendClick is an Options.Encode. Any encoder that appends works; encoding/json is the
// simplest, and makes some garbage.
func appendClick(dst []byte, c *Click) ([]byte, error) {
	b, err := json.Marshal(c)
	return append(dst, b...), err
}

// exampleReceiver is a service that takes batches, such as uniflow loader.
func exampleReceiver() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // errors are ignored in this example
		fmt.Printf("received %d events: %s\n", strings.Count(string(body), "\n"), strings.TrimSpace(string(body)))
	}))
}

// Five lines: make a sender and a processor, add events, close.
func Example() {
	server := exampleReceiver()
	defer server.Close()

	send, err := batch.NewHTTP(server.URL+"/batch", batch.HTTPOptions{})
	if err != nil {
		panic(err)
	}
	p, err := batch.New(batch.Options[Click]{Encode: appendClick, Send: send})
	if err != nil {
		panic(err)
	}
	if err := p.Add(&Click{"ann", "/"}); err != nil {
		panic(err)
	}
	report, err := p.Close(context.Background())
	fmt.Println("delivered", report.Delivered, err)
	// Output:
	// received 1 events: {"user":"ann","page":"/"}
	// delivered 1 <nil>
}

// Events of one user arrive in the order in which they were added; events of
// different users may overtake each other.
func Example_orderedByKey() {
	last := make(chan string, 100)
	p, err := batch.New(batch.Options[Click]{
		Encode: appendClick,
		Send: func(_ context.Context, b *batch.Batch) batch.Outcome {
			for e := range b.Events() {
				if strings.Contains(string(e), "ann") {
					last <- string(e)
				}
			}
			return batch.Outcome{}
		},
		Lanes: batch.Lanes[Click]{
			Max:   8,
			Order: batch.OrderPerKey,
			Key: func(c *Click) uint64 {
				h := fnv.New64a()
				h.Write([]byte(c.User))
				return h.Sum64()
			},
		},
	})
	if err != nil {
		panic(err)
	}
	for _, c := range []Click{{"ann", "/"}, {"bob", "/"}, {"ann", "/cart"}, {"ann", "/pay"}} {
		if err := p.Add(&c); err != nil {
			panic(err)
		}
	}
	if err := p.Flush(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(<-last, <-last, <-last)
	_, err = p.Close(context.Background())
	fmt.Println(err)
	// Output:
	// {"user":"ann","page":"/"} {"user":"ann","page":"/cart"} {"user":"ann","page":"/pay"}
	// <nil>
}

// With a spool, events outlive the process. A ticket reports when one is on disk.
func Example_spool() {
	dir, err := os.MkdirTemp("", "spool")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	away := func(context.Context, *batch.Batch) batch.Outcome {
		return batch.Outcome{Err: errors.New("connection refused")}
	}
	config := batch.Options[Click]{Encode: appendClick, Send: away, Spool: &batch.Spool{Dir: dir, WriteAhead: true}}
	p, err := batch.New(config)
	if err != nil {
		panic(err)
	}
	ticket, err := p.AddAck(context.Background(), &Click{"ann", "/pay"})
	if err != nil {
		panic(err)
	}
	fmt.Println("on disk:", ticket.Wait(context.Background(), batch.StateDurable))

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	report, err := p.Close(ctx)
	fmt.Println("left in the spool:", report.Spooled, err)

	// The next process, when the receiver is back:
	server := exampleReceiver()
	defer server.Close()
	if config.Send, err = batch.NewHTTP(server.URL, batch.HTTPOptions{}); err != nil {
		panic(err)
	}
	if p, err = batch.New(config); err != nil {
		panic(err)
	}
	report, err = p.Close(context.Background())
	fmt.Println("delivered:", report.Delivered, err)
	// Output:
	// on disk: <nil>
	// left in the spool: 1 <nil>
	// received 1 events: {"user":"ann","page":"/pay"}
	// delivered: 1 <nil>
}

// An HTTP service counts its visits. At the end it first responds to the current requests,
// and then sends their events.
func Example_gracefulStop() {
	receiver := exampleReceiver()
	defer receiver.Close()
	send, err := batch.NewHTTP(receiver.URL, batch.HTTPOptions{Compression: batch.CompressionNone})
	if err != nil {
		panic(err)
	}
	p, err := batch.New(batch.Options[Click]{
		Encode: appendClick,
		Send:   send,
		Queue:  batch.Queue{Full: batch.PolicyReject}, // do not wait for room
		OnDrop: func(d batch.Dropped) { fmt.Println("dropped", len(d.Events), d.Reason) },
	})
	if err != nil {
		panic(err)
	}

	service := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := p.Add(&Click{r.URL.Query().Get("user"), r.URL.Path}); err != nil {
			fmt.Println(err) // counted in Stats().Rejected, too
		}
		fmt.Fprint(w, "hello")
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	served := make(chan error)
	go func() { served <- service.Serve(l) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/welcome?user=ann")
	if err != nil {
		panic(err)
	}
	resp.Body.Close()

	// On SIGTERM:
	requests, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := service.Shutdown(requests); err != nil { // no more requests, so no more events
		fmt.Println(err)
	}
	<-served
	events, cancel := context.WithTimeout(context.Background(), 10*time.Second) // not shortened by a slow request
	defer cancel()
	report, err := p.Close(events) // sends their events
	for event := range report.Events() {
		fmt.Println("not delivered:", string(event)) // only after ten seconds without the receiver
	}
	fmt.Println("delivered", report.Delivered, err)
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// received 1 events: {"user":"ann","page":"/welcome"}
	// delivered 1 <nil>
}
