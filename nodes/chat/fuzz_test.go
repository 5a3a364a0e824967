package chat

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/value"
)

// FuzzSaid reads what clients send, and what workflows answer.
func FuzzSaid(f *testing.F) {
	for _, seed := range []string{
		`{"text":"hi","id":"1","conversation":"x.y","wait":true,"data":"d"}`, `{"text":1e99}`, `{"text":null}`, `"{}"`, `[]`, `{"text":"\ud800"}`,
		`[{"text":"a","edit":true},"b",7]`, `{"buttons":["a",{"text":"b","url":"https://e.example/"}],"files":["https://e.example/f"]}`, `{"files":[{"url":"javascript:1"}]}`,
		`[{"role":"user","content":"x"},{"role":"assistant","content":["y"]},7]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := postedOf(value.String(text), 100, nil)
		if err == nil && (len(s.text) > 100 || len(s.id) > maxID) {
			t.Errorf("got %+v", s)
		}
		v, err := value.ParseJSON([]byte(text))
		if err != nil {
			return
		}
		if answers, err := answersOf(v); err == nil {
			for _, a := range answers {
				if !utf8.ValidString(a.text) || len(a.buttons) > mostButtons || len(a.files) > mostFiles {
					t.Errorf("got %+v", a)
				}
				for _, file := range a.files {
					if !strings.HasPrefix(strings.ToLower(file.URL), "http") {
						t.Errorf("got a file at %q", file.URL)
					}
				}
			}
		}
		if earlier := historyOf(v); len(earlier) > mostMessages {
			t.Errorf("got %d messages", len(earlier))
		}
		pieceOf(v)
	})
}

// FuzzSplit cuts texts. Nothing is lost, and no piece is too long.
func FuzzSplit(f *testing.F) {
	f.Add("a b c", 2)
	f.Add("\U0001F600\U0001F600", 3)
	f.Add(strings.Repeat("x", 50)+"\n"+strings.Repeat("y", 50), 64)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 2 || most > 1000 {
			return
		}
		pieces := split(text, most)
		if strings.Join(pieces, "") != text || len(pieces) == 0 {
			t.Fatalf("got %q of %q", pieces, text)
		}
		for _, piece := range pieces {
			units := 0
			for _, r := range piece {
				if units++; r > 0xFFFF {
					units++
				}
			}
			if units > most {
				t.Errorf("got %d units, want at most %d: %q", units, most, piece)
			}
		}
	})
}

// FuzzWebhooks reads signed requests of the platforms, and what Slack sends on connections.
func FuzzWebhooks(f *testing.F) {
	for _, seed := range []string{
		`{"update_id":1,"message":{"message_id":1,"chat":{"id":42},"from":{"id":7},"text":"/start","photo":[{"file_id":"x","file_size":9}]}}`,
		`{"update_id":2,"callback_query":{"id":"c","from":{"id":7},"message":{"chat":{"id":42}},"data":"d"}}`,
		`{"update_id":3,"my_chat_member":{"chat":{"id":42},"from":{"id":7},"new_chat_member":{"status":"member"}}}`,
		`{"type":"url_verification","challenge":{"a":1}}`,
		`{"type":"event_callback","event_id":"E","team_id":"T","event":{"type":"app_mention","channel":"C","user":"U","ts":"1.2","text":"<@B> hi","files":[{"name":"n","size":"x"}]}}`,
		`{"payload":["{\"type\":\"block_actions\",\"actions\":[{\"value\":\"v\"}],\"team\":{\"id\":\"T\"},\"channel\":{\"id\":\"C\"}}"]}`,
		`{"command":["/ask"],"trigger_id":["1"],"team_id":["T"],"channel_id":["C"],"text":["a"]}`,
		`{"envelope_id":"e","type":"events_api","payload":{"type":"event_callback","event_id":"E","team_id":"T","event":{"type":"message","channel_type":"im","channel":"D","user":"U","ts":"1.2","text":"hi"}}}`,
		`{"envelope_id":"e","type":"interactive","payload":{"type":"block_actions","actions":[{"value":"v"}],"team":{"id":"T"},"channel":{"id":"C"}}}`,
		`{"envelope_id":"e","type":"slash_commands","payload":{"command":"/ask","trigger_id":"1","team_id":"T","channel_id":"C"}}`,
		`{"type":1}`,
		`{"type":2,"id":"1","application_id":"../a","token":"t/../..","channel_id":"c","user":{"id":"u"},"data":{"name":"n","options":[{"name":"a","value":[]}]}}`,
		`{"type":3,"id":"1","application_id":"a","token":"t","channel_id":"c","member":[],"data":{"custom_id":{}}}`,
	} {
		f.Add(seed)
	}
	public, private, err := ed25519.GenerateKey(strings.NewReader(strings.Repeat("k", 64)))
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	const at = "1800000000"
	hooks := []webhook{&telegram{secret: "s", bot: "1"}, &slack{secret: "0123456789abcdef"}, &discord{key: public}}
	f.Fuzz(func(t *testing.T, text string) {
		body, err := value.ParseJSON([]byte(text))
		if err != nil {
			return
		}
		mac := hmac.New(sha256.New, []byte("0123456789abcdef"))
		io.WriteString(mac, "v0:"+at+":"+text)
		header := func(pairs ...string) value.Value {
			var b value.MapBuilder
			for i := 0; i < len(pairs); i += 2 {
				b.Set(pairs[i], value.List(value.String(pairs[i+1])))
			}
			return b.Build()
		}
		r := &request{body: body, raw: []byte(text), header: header(
			"X-Telegram-Bot-Api-Secret-Token", "s", "X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)),
			"X-Signature-Timestamp", at, "X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(private, []byte(at+text))),
		)}
		var events []*platformEvent
		if body.Kind() == value.KindMap {
			_, e := hooks[1].(*slack).envelope(body)
			events = append(events, e)
		}
		for _, hook := range hooks {
			e, _, err := hook.read(r, now)
			if err == nil {
				events = append(events, e)
			}
		}
		for _, e := range events {
			if e == nil {
				continue
			}
			if e.once == "" || e.conversation == "" || e.conversation != e.to.conversation || e.event == "" {
				t.Errorf("got %+v", e)
			}
			if strings.Contains(e.to.token, "..") && strings.Count(e.to.token, "/") > 1 {
				t.Errorf("the token leads elsewhere: %s", e.to.token)
			}
			if _, err := e.payload().AppendJSON(nil); err != nil {
				t.Error(err)
			}
			if e.answer != nil {
				e.answer(true)
			}
		}
		if e, _, err := hooks[1].read(&request{body: body, raw: []byte(text + " "), header: r.header}, now); e != nil || err == nil {
			t.Error("a changed body was taken")
		}
	})
}
