package chat

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// TestDiscordLate sends, changes and ends messages of an interaction that can be answered, and of one whose time
// is over, with and without the token of a bot.
func TestDiscordLate(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"id": "9"}`))
	}))
	defer server.Close()
	f := func(bot bool, until time.Time, want ...string) {
		t.Helper()
		got = nil
		h := &discord{api: &api{base: server.URL, client: server.Client(), header: http.Header{}}, clock: node.SystemClock{}}
		if bot {
			h.bot = &api{base: server.URL, client: server.Client(), header: http.Header{"Authorization": {"Bot b"}}}
		}
		to := target{conversation: "discord/4/7", channel: "4", token: "app/t", answered: new(bool), until: until}
		for range 2 {
			id, err := h.post(context.Background(), to, "text", nil)
			if err == nil {
				err = h.edit(context.Background(), to, id, "more", nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := h.silent(context.Background(), to); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	past, future := time.Now().Add(-time.Second), time.Now().Add(time.Hour)
	original, one := "PATCH /webhooks/app/t/messages/@original ", "PATCH /webhooks/app/t/messages/9 "
	answers := []string{original, original, "POST /webhooks/app/t ", one, "DELETE /webhooks/app/t/messages/@original "}
	post, edit := "POST /channels/4/messages Bot b", "PATCH /channels/4/messages/9 Bot b"
	f(true, future, answers...)
	f(false, past, answers...) // Discord refuses them
	f(true, past, post, edit, post, edit)
}
