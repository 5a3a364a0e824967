package ai

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/format/sse"
)

// BenchmarkNext reads one piece of an answer: an event, its JSON and the text in it.
func BenchmarkNext(b *testing.B) {
	const event = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"small","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n"
	body := &forever{text: strings.Repeat(event, 100)}
	n := &llm{silence: time.Minute}
	timer := time.AfterFunc(time.Hour, func() {})
	defer timer.Stop()
	x := &exchange{r: &run{n: n}, ctx: context.Background(), limited: context.Background(), timer: timer, events: sse.NewReader(body, 1<<20)}
	b.ReportAllocs()
	for b.Loop() {
		piece, err := x.next()
		if err != nil || piece != " token" {
			b.Fatal(piece, err)
		}
		if x.reply.text.Len() > 1<<20 {
			x.reply.text.Reset()
		}
	}
}

// forever is a text again and again.
type forever struct {
	text string
	at   int
}

var _ io.Reader = (*forever)(nil)

func (f *forever) Read(p []byte) (int, error) {
	n := copy(p, f.text[f.at:])
	f.at = (f.at + n) % len(f.text)
	return n, nil
}
