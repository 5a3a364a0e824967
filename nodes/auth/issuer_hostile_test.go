package auth

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/node/field"
)

// TestHostileIssuer reads keys of issuers that are not what they should be.
func TestHostileIssuer(t *testing.T) {
	const key = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"%d"}`
	keys := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(key, i)
		}
		return `{"keys":[` + strings.Join(list, ",") + `]}`
	}
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		io.WriteString(w, keys(1)) //nolint:errcheck // the client notices
	}))
	defer other.Close()
	f := func(name, answer, want string) {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if to, ok := strings.CutPrefix(answer, "to "); ok {
				http.Redirect(w, r, to, http.StatusFound)
				return
			}
			io.WriteString(w, answer) //nolint:errcheck // the client notices
		}))
		defer s.Close()
		client, err := newClient(field.TLS{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		have, err := readIssuer(context.Background(), client, origin{jwks: s.URL})
		switch {
		case err != nil && want == "", err == nil && want != "", err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s: got %v, want %q", name, err, want)
		case err == nil && len(have.keys) == 0:
			t.Errorf("%s: got no keys", name)
		}
	}
	f("good", keys(maxKeys), "")
	f("a redirect", "to "+other.URL, "the answer has the status 302")
	f("too many keys", keys(maxKeys+1), "there are more than 100")
	f("too long", keys(1)+strings.Repeat(" ", maxDocument), "more than 1048576 bytes")
	f("not JSON", "<html>", "not the JSON that is expected")
	f("half", keys(2)[:100], "not the JSON that is expected")
	f("no keys", "{}", "there is none for signatures")
	// Who reads these could sign with them.
	f("a secret", `{"keys":[{"kty":"oct","k":"YW4gZXhhbXBsZSBvZiBhdCBsZWFzdCAzMiBieXRlcyE"}]}`, "there is none for signatures")
	f("a private key", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}]}`, "there is none for signatures")
	f("for encryption", strings.Replace(keys(1), `"kid"`, `"use":"enc","kid"`, 1), "there is none for signatures")
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
}
