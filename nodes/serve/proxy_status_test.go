package serve_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestProxyStatus has a target whose status is not one of HTTP: sending it on would panic.
func TestProxyStatus(t *testing.T) {
	for _, status := range []string{"000 x", "001 x", "099 x"} {
		w := proxied(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 2\r\n\r\nhi") //nolint:errcheck // the proxy notices
		}, "")
		if a := w.Request("GET", "/", ""); a.Status != http.StatusBadGateway || strings.Contains(w.Log(), "panic") {
			t.Errorf("%s: got %+v\n%s", status, a, w.Log())
		}
	}
}
