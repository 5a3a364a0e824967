package plain

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxHead is the longest head, in bytes, that is plain. One with a token and some cookies
	// is shorter.
	maxHead = 8 << 10

	// maxBody is the longest body, in bytes, that is plain. As much is read, of a body that was not
	// used, before the answer is sent: by net/http, too.
	maxBody = 256 << 10
)

// A verdict says what was read of a connection.
type verdict uint8

const (
	incomplete verdict = iota // more must be read
	whole                     // a plain head
	other                     // net/http must say what it is
)

// parse parses the head of a request at the start of data, and returns how long it is. It sets all
// fields of r but those of the body and of the connection. A request that net/http might
// understand in another way is not plain.
func parse(data []byte, r *http.Request, u *url.URL) (n int, v verdict) {
	end := bytes.Index(data, headEnd)
	if end < 0 {
		return 0, begun(data)
	}
	head := string(data[:end+2])
	line, lines, _ := strings.Cut(head, "\r\n")
	if !parseLine(line, r, u) || !parseHeader(lines, r) {
		return 0, other
	}
	return end + len(headEnd), whole
}

var headEnd = []byte("\r\n\r\n")

// begun says what a head is that has not come whole: other as soon as it cannot become plain,
// since net/http answers some mistakes before the end of the head.
func begun(data []byte) verdict {
	line, _, found := bytes.Cut(data, []byte("\n"))
	switch {
	case len(data) >= maxHead:
		return other
	case !found:
		for i, c := range data {
			if c == ' ' && i > 0 {
				break
			}
			if !httpguts.IsTokenRune(rune(c)) {
				return other
			}
		}
	case !bytes.HasSuffix(line, []byte(" HTTP/1.1\r")):
		return other
	}
	return incomplete
}

// parseLine parses the first line.
func parseLine(line string, r *http.Request, u *url.URL) bool {
	method, rest, _ := strings.Cut(line, " ")
	target, proto, _ := strings.Cut(rest, " ")
	if proto != "HTTP/1.1" || method == "" || target == "" || target[0] != '/' || method == http.MethodConnect {
		return false
	}
	for i := range len(method) {
		if c := method[i]; c < 'A' || 'Z' < c {
			return false
		}
	}
	r.Method, r.RequestURI = method, target
	r.Proto, r.ProtoMajor, r.ProtoMinor = proto, 1, 1
	r.URL = u
	path, query, _ := strings.Cut(target, "?")
	if isPlainPath(path) && isPlainQuery(query) && (query != "" || len(path) == len(target)) {
		*u = url.URL{Path: path, RawQuery: query}
		return true
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		return false
	}
	*u = *parsed
	return true
}

// isPlainPath reports whether a path is the same decoded, and its default encoding.
func isPlainPath(s string) bool {
	for i := range len(s) {
		if !unreserved[s[i]] && s[i] != '/' {
			return false
		}
	}
	return true
}

// isPlainQuery reports whether a query is visible text of ASCII.
func isPlainQuery(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	return true
}

// parseHeader parses the lines of a header, each with its end.
func parseHeader(lines string, r *http.Request) bool {
	n := strings.Count(lines, "\n")
	h, values := make(http.Header, n), make([]string, 0, n)
	r.Header, r.Host, r.ContentLength, r.Close = h, "", -1, false
	for lines != "" {
		line, rest, found := strings.Cut(lines, "\r\n")
		lines = rest
		colon := strings.IndexByte(line, ':')
		if !found || colon <= 0 {
			return false
		}
		name := textproto.CanonicalMIMEHeaderKey(line[:colon])
		v := strings.Trim(line[colon+1:], " \t")
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) || !note(name, v, r) {
			return false
		}
		if name == "Host" {
			continue
		}
		if list, again := h[name]; again {
			h[name] = append(list, v)
			continue
		}
		values = append(values, v)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	if _, pragma := h["Pragma"]; pragma && len(h["Cache-Control"]) == 0 { // net/http adds it
		return false
	}
	r.ContentLength = max(r.ContentLength, 0)
	return r.Host != ""
}

// note sets what a header says of the request, and reports whether it is plain.
func note(name, v string, r *http.Request) bool {
	switch name {
	case "Host":
		first := r.Host == ""
		r.Host = v
		return first && v != "" && httpguts.ValidHostHeader(v)
	case "Content-Length":
		first := r.ContentLength < 0
		r.ContentLength = length(v)
		return first && r.ContentLength >= 0
	case "Connection":
		switch {
		case strings.EqualFold(v, "close"):
			r.Close = true
			return true
		default:
			return strings.EqualFold(v, "keep-alive")
		}
	case "Transfer-Encoding", "Upgrade", "Expect", "Trailer", "Http2-Settings":
		return false
	}
	return true
}

// length returns a Content-Length, or -1 for one that is not plain.
func length(s string) int64 {
	if s == "" || len(s) > len("262144") {
		return -1
	}
	n := int64(0)
	for i := range len(s) {
		if s[i] < '0' || '9' < s[i] {
			return -1
		}
		n = 10*n + int64(s[i]-'0')
	}
	if n > maxBody {
		return -1
	}
	return n
}

// unreserved are the characters that no part of a URL encodes (RFC 3986, section 2.3).
var unreserved = func() (set [256]bool) {
	for _, c := range []byte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._~") {
		set[c] = true
	}
	return set
}()
