package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func serve(t *testing.T, in string, h Handler) string {
	t.Helper()
	var out bytes.Buffer
	if err := Serve(strings.NewReader(in), &out, h); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestServe(t *testing.T) {
	got := serve(t, `{"id":1,"payload":{"a":1}}`+"\n"+`{"payload": "text", "id": 2}`+"\n"+`{"id":3,"payload":"`+strings.Repeat("x", 100_000)+`"}`+"\n", func(p json.RawMessage) (any, error) { return len(p), nil })
	if want := `{"id":1,"payload":7}` + "\n" + `{"id":2,"payload":6}` + "\n" + `{"id":3,"payload":100002}` + "\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = serve(t, `{"id":1,"payload":1}`+"\n"+`{"id":2,"payload":2}`+"\n"+`{"id":3,"payload":3}`+"\n", func(p json.RawMessage) (any, error) {
		switch string(p) {
		case "1":
			return nil, &Error{Message: "no", Code: "c", Status: 409}
		case "2":
			return nil, errors.New("plain")
		}
		return func() {}, nil
	})
	want := `{"id":1,"error":{"message":"no","code":"c","status":409}}` + "\n" + `{"id":2,"error":{"message":"plain"}}` + "\n" + `{"id":3,"error":{"message":"json: unsupported type: func()"}}` + "\n"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := Serve(strings.NewReader("no request\n"), new(bytes.Buffer), nil); err == nil {
		t.Error("what is not a request is accepted")
	}
}

// FuzzRequest compares the short way with package json, for what the engine may write.
func FuzzRequest(f *testing.F) {
	f.Add(uint64(7), `{"a":[1,"}"]}`)
	f.Add(uint64(0), `",\"payload\":"`)
	f.Fuzz(func(t *testing.T, id uint64, payload string) {
		line, err := json.Marshal(map[string]any{"id": id, "payload": payload})
		if err != nil {
			t.Fatal(err)
		}
		gotID, got, err := request(append(line, '\n'))
		var text string
		if err == nil {
			err = json.Unmarshal(got, &text)
		}
		want, _ := json.Marshal(payload) // replaces what is not UTF-8
		var wanted string
		_ = json.Unmarshal(want, &wanted)
		if err != nil || gotID != id || text != wanted {
			t.Errorf("%s: got %d %s, %v", line, gotID, got, err)
		}
	})
}
