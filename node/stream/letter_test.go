package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// failing runs messages through a workflow that fails, and returns what it got and the
// dead letters, as a sink writes them.
func failing(t *testing.T, fields string, fail bool, bodies ...string) (got []value.Value, dead []string) {
	t.Helper()
	s := newBroker(stream.Traits{})
	s.add(0, "k", bodies...)
	var mu sync.Mutex
	r := start(t, s, "- {kind: mem, name: s, order: total, retry: {threshold: 1, backoff: {initial: 1ms}}, "+fields+", ports: {out: [{name: t}], error: [{name: t, port: dead}]}}\n- {kind: take, name: t}\n",
		func(_ context.Context, port string, v value.Value) error {
			mu.Lock()
			defer mu.Unlock()
			if port == "dead" {
				text, err := v.AppendJSON(nil)
				dead = append(dead, string(text))
				return err
			}
			got = append(got, v)
			if fail {
				return errors.New("not today")
			}
			return nil
		})
	r.until("all to be settled", s.settledAll)
	r.shutdown(time.Second)
	return got, dead
}

// TestLetters sends the dead letters of a source through one with letters: its messages
// are those that have failed, with the types that they had.
func TestLetters(t *testing.T) {
	for name, test := range map[string]struct{ fields, body string }{
		"json":   {"decode: json", `{"a/b~": [1, 2.5, null, "x"], "body": {}}`},
		"null":   {"decode: json", `null`},
		"floats": {"decode: json", `{"whole": 3.0, "large": 1e300, "list": [[7.0]]}`},
		"text":   {"decode: text", "héllo\n"},
		"raw":    {"decode: raw", "\x00\xff{"},
	} {
		t.Run(name, func(t *testing.T) {
			before, dead := failing(t, test.fields, true, test.body)
			if len(before) != 2 || len(dead) != 1 {
				t.Fatalf("got %v and %q", before, dead)
			}
			for _, want := range []string{`"message":"node \"t\" (t.yaml:2:3): not today"`, `"node":"s"`, `"source":"mem"`, `"failed":"t"`, `"place":"t.yaml:2:3"`, `"attempts":2`, `"time":"`, `"key":"k"`, `"id":"0/1"`} {
				if !strings.Contains(dead[0], want) {
					t.Errorf("got %s, want %s in it", dead[0], want)
				}
			}
			after, again := failing(t, "letters: true, "+test.fields, true, dead[0])
			if len(after) != 2 || !after[0].Equal(before[0]) || after[1].String() != before[1].String() {
				t.Errorf("got %v, want %v", after, before)
			}
			if len(again) != 1 || withoutTime(again[0]) != withoutTime(dead[0]) {
				t.Errorf("the second letter is %q, want as the first, %q", again, dead[0])
			}
		})
	}
}

func withoutTime(letter string) string {
	before, after, _ := strings.Cut(letter, `"attempts":2,"time":"`)
	_, after, _ = strings.Cut(after, `"`)
	return before + after
}

// TestLettersThatCannotBeOpened keeps what cannot be a message a dead letter, and takes one
// that was corrected.
func TestLettersThatCannotBeOpened(t *testing.T) {
	_, dead := failing(t, "decode: json", false, `{"n":`)
	if len(dead) != 1 || !strings.Contains(dead[0], `"code":"undecodable"`) || !strings.Contains(dead[0], `"body":"{\"n\":"`) {
		t.Fatalf("got %q", dead)
	}
	corrected := strings.Replace(dead[0], `"body":"{\"n\":"`, `"body":"{\"n\":1}"`, 1)
	edited := strings.Replace(dead[0], `"body":"{\"n\":"`, `"body":{"n":2}`, 1)
	got, again := failing(t, "letters: true", false, dead[0], corrected, edited, `{"message": "of something else"}`, `nonsense`)
	if text := fmt.Sprint(got); len(got) != 2 || !strings.Contains(text, `"body":{"n":1}`) || !strings.Contains(text, `"body":{"n":2}`) {
		t.Errorf("got %v", got)
	}
	if len(again) != 3 {
		t.Fatalf("got %q, want three dead letters", again)
	}
	for i, want := range []string{`"data":{"body":"{\"n\":"`, `it is not a dead letter`, `"data":{"body":"nonsense"`} {
		if !strings.Contains(again[i], want) || !strings.Contains(again[i], `"code":"undecodable"`) {
			t.Errorf("got %s, want %s in it", again[i], want)
		}
	}
}
